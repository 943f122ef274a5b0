// An allgather of lists whose lengths all ranks know, by dissemination, for every P.
#pragma once

#include "libsched/schedule/builder.h"

namespace lsched {

/// Appends it: this rank's list is the only one of `mine`; `lengths` are those of all ranks' lists, u64, in a scratch
/// buffer. Neither changes any more once `entry` has completed. Answers a buffer of P packed lists, in order of ranks,
/// of which no one has more than `room` items, and all together not more than `total`; it is filled when `done`
/// completes. Tags from `tag` on, less than 32. What is sent has left before `exit`.
struct gathered_lists {
  buffer_id lists = k_no_buffer;
  op_id done = k_no_op;
};
gathered_lists add_list_gather(builder& to, buffer_id mine, region lengths, const list_layout& layout,
                               std::uint32_t tag, op_id entry, op_id exit);

}  // namespace lsched
