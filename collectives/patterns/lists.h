// Exchanges of lists: every rank sends a separate list to each rank, or every rank sends the same list to all ranks.
#pragma once

#include "libsched/schedule/builder.h"

namespace lsched {

/// An exchange in which every rank sends a list, or an element, to every rank.
struct list_exchange {
  buffer_id from = k_no_buffer, into = k_no_buffer;  ///< buffers with one list for each rank
  op_id sent = k_no_op;                              ///< op after which the lists to send are complete
  op_id received = k_no_op;                          ///< op after which the target buffer is ready, or k_no_op
  guard when{};                                      ///< guard of all messages (schedule.h)
  std::uint32_t bucket = 0;  ///< number of lists that a rank sends before it waits for as many lists; 0: all lists
};

/// Appends the exchange, in which rank r sends to ranks r+1, r+2, … in this order. Returns an op after which all lists
/// have arrived. Makes op `exit` wait for all sends. Uses one tag.
op_id add_list_exchange(builder& to, const list_exchange& all, op_id exit);

/// Appends an allgather of lists by dissemination, for any P. `mine` must contain only this rank's list. `lengths` must
/// contain the lengths of all ranks' lists (u64, in a scratch buffer). Neither may change after `entry` has completed.
/// Returns a buffer of P packed lists in rank order. The buffer is complete after op `done`. A list may have at most
/// `layout.room` items, and all lists together at most `layout.total`. Uses fewer than 32 tags, beginning with `tag`.
/// Makes op `exit` wait for all sends.
struct gathered_lists {
  buffer_id lists = k_no_buffer;
  op_id done = k_no_op;
};
gathered_lists add_list_gather(builder& to, buffer_id mine, region lengths, const list_layout& layout,
                               std::uint32_t tag, op_id entry, op_id exit);

}  // namespace lsched
