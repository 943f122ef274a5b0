// How lists travel: from everybody to everybody, a list for each, or all of them to all.
#pragma once

#include "libsched/schedule/builder.h"

namespace lsched {

/// Every rank has a list, or an element, for each, and gets one from each.
struct list_exchange {
  buffer_id from = k_no_buffer, into = k_no_buffer;  ///< by rank
  op_id sent = k_no_op;                              ///< from then on there is what is sent, and
  op_id received = k_no_op;                          ///< from then on room for what is received; k_no_op: at once
  guard when{};                                      ///< of all messages
  std::uint32_t bucket = 0;  ///< peers that a rank sends to before it has what as many send; 0: all of them
};

/// Appends it, to ranks r+1, r+2, … in this order. Answers an op after which all is there; what is sent has left before
/// `exit`. One tag.
op_id add_list_exchange(builder& to, const list_exchange& all, op_id exit);

/// Appends an allgather by dissemination, for every P, of lists whose lengths all ranks know: this rank's list is the
/// only one of `mine`; `lengths` are those of all ranks' lists, u64, in a scratch buffer. Neither changes any more once
/// `entry` has completed. Answers a buffer of P packed lists, in order of ranks, of which no one has more than `room`
/// items, and all together not more than `total`; it is filled when `done` completes. Tags from `tag` on, less than 32.
/// What is sent has left before `exit`.
struct gathered_lists {
  buffer_id lists = k_no_buffer;
  op_id done = k_no_op;
};
gathered_lists add_list_gather(builder& to, buffer_id mine, region lengths, const list_layout& layout,
                               std::uint32_t tag, op_id entry, op_id exit);

}  // namespace lsched
