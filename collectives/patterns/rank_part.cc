#include "collectives/patterns/rank_part.h"

namespace lsched {

op_id rank_part::ordered(op_id later, deps when) {
  bool is_ordered = false;
  for (const op_id earlier : when) {
    to_.dep(earlier, later);
    is_ordered = is_ordered || earlier != k_no_op;
  }
  if (!is_ordered) to_.dep(entry(), later);
  return later;
}

void rank_part::end(op_id last) {
  if (last == k_no_op) return;
  to_.dep(last, exit_);
  has_end_ = true;
}

fragment rank_part::finish(bool holding) {
  if (!has_end_) to_.dep(entry(), exit_);
  return {.entry = entry(), .exit = exit_, .holding = holding};
}

std::uint64_t messages_of_doubling(rank size) {
  const fold folded(size);
  return wide(folded.core()) * static_cast<std::uint64_t>(folded.levels()) + 2 * wide(folded.rem());
}

std::uint64_t hops_of_doubling(rank size) {
  const fold folded(size);
  const std::uint64_t ends = folded.rem() == 0 ? 0 : 2 * wide(folded.rem()) > wide(folded.core()) ? 2 : 1;
  return static_cast<std::uint64_t>(folded.levels()) + ends;
}

std::uint64_t pieces_of(const shape& data, std::uint64_t count) {
  constexpr std::uint64_t k_segment_bytes = 128 << 10;
  constexpr std::uint64_t k_most_pieces = 64;
  if (count == 0) return 0;
  const std::uint64_t longest = data.segment != 0 ? data.segment : k_segment_bytes / size_of(data.type);
  return std::min((count - 1) / longest + 1, k_most_pieces);
}

std::uint64_t pieces_if_segmented(const shape& data, std::uint64_t count) {
  return data.segment == 0 ? std::min<std::uint64_t>(count, 1) : pieces_of(data, count);
}

// Returns the number of non-empty pieces of all blocks. Blocks have at most two lengths: the length of the first block
// and the length of the last block.
std::uint64_t block_pieces::filled() const {
  const std::uint64_t number = blocks_.number(), longer = blocks_.count() % number;
  return longer * filled(0) + (number - longer) * filled(number - 1);
}

}  // namespace lsched
