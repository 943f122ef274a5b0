#include "collectives/patterns/subtree_blocks.h"

#include <algorithm>

namespace lsched {

subtree_blocks::subtree_blocks(rank size, const shape& data, rank radix, bool is_whole)
    : tree_(size, data.root, radix), offsets_(block_offsets(data, size)), data_(data), is_whole_(is_whole) {}

subtree_blocks subtree_blocks::flat(rank size, const shape& data) { return {size, data, std::max(size, 2), false}; }

subtree_blocks subtree_blocks::binomial(rank size, const shape& data) {
  return {size, data, data.radix == 0 ? 2 : data.radix, data.segment == 0};
}

portions subtree_blocks::pieces_of_subtree(rank r) const {
  const std::uint64_t count = count_of_subtree(r);
  return {count, is_whole_ ? std::min<std::uint64_t>(count, 1) : pieces_of(data_, count)};
}

// Whoever has a block is as many hops from the root as edges: none of the messages on the way is empty.
cost subtree_blocks::price() const {
  cost all;
  std::uint64_t elements = 0;
  for (rank r = 0; r + 1 < static_cast<rank>(offsets_.size()); ++r) {
    if (r == data_.root) continue;
    all.messages += pieces_of_subtree(r).number();
    elements += count_of_subtree(r);
    if (block_count(data_, r) > 0) all.hops = std::max(all.hops, static_cast<std::uint64_t>(tree_.depth_of(r)));
  }
  all.bytes = bytes_of(elements, data_);
  return all;
}

}  // namespace lsched
