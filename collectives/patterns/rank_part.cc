#include "collectives/patterns/rank_part.h"

#include <algorithm>

#include "libsched/schedule/geometry.h"

namespace lsched {

rank rank_part::after(rank distance) const { return ring_after(self(), distance, size()); }
rank rank_part::before(rank distance) const { return ring_before(self(), distance, size()); }

op_id rank_part::ordered(op_id what, deps when) {
  bool is_ordered = false;
  for (const op_id earlier : when) {
    to_.dep(earlier, what);
    is_ordered = is_ordered || earlier != k_no_op;
  }
  if (!is_ordered) to_.dep(entry_, what);
  return what;
}

void rank_part::end(op_id last) {
  if (last == k_no_op) return;
  to_.dep(last, exit_);
  has_end_ = true;
}

fragment rank_part::finish(bool holding) {
  if (!has_end_) to_.dep(entry_, exit_);
  return {.entry = entry_, .exit = exit_, .holding = holding};
}

std::uint64_t pieces_of(const shape& data, std::uint64_t count) {
  constexpr std::uint64_t k_segment_bytes = 128 << 10;
  constexpr std::uint64_t k_most_pieces = 64;
  if (count == 0) return 0;
  const std::uint64_t longest = data.segment != 0 ? data.segment : k_segment_bytes / size_of(data.type);
  return std::min((count - 1) / longest + 1, k_most_pieces);
}

}  // namespace lsched
