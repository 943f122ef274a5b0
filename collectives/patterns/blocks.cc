#include "collectives/patterns/blocks.h"

#include <algorithm>

#include "collectives/algorithm/algorithm.h"

namespace lsched {

// Blocks of at least eight cache lines begin at the start of a cache line. Their lengths then differ by at most an
// eighth.
cut cut_into_blocks(const shape& data, std::uint64_t count, std::uint64_t parts) {
  constexpr std::uint64_t k_line_bytes = 64;
  const std::uint64_t line = k_line_bytes / size_of(data.type);
  return {count, parts, count / parts >= 8 * line ? line : 1};
}

std::vector<std::uint64_t> block_begins(const shape& data, std::uint64_t parts) {
  const cut blocks = cut_into_blocks(data, data.count, parts);
  std::vector<std::uint64_t> begins;
  for (std::uint64_t i = 0; i <= parts; ++i) begins.push_back(blocks.begin(i));
  return begins;
}

block_grid::block_grid(bool is_vector, const shape& data, rank size, std::uint64_t piece_bytes,
                       std::uint64_t most_segments)
    : data_(&data),
      size_(wide(size)),
      offsets_(is_vector ? std::vector<std::uint64_t>{0, data.count} : block_offsets(data, size)) {
  constexpr std::uint64_t k_most_pieces = 8192;
  const std::uint64_t most = size == 1 ? 1 : std::clamp<std::uint64_t>(k_most_pieces / size_, 1, most_segments);
  const std::uint64_t length = data.segment != 0 ? data.segment : piece_bytes / size_of(data.type);
  const std::uint64_t layer = saturating_product(size_, length);
  segments_ = std::clamp<std::uint64_t>(total() / layer + (total() % layer != 0 ? 1 : 0), 1, most);
}

piece block_grid::at(rank block, std::uint64_t segment) const {
  const auto number = static_cast<std::uint64_t>(block);
  if (offsets_.size() == 2 && size_ != 1) {
    const cut layers = cut_into_blocks(*data_, total(), segments_);
    const cut blocks = cut_into_blocks(*data_, layers.size(segment), size_);
    return {layers.begin(segment) + blocks.begin(number), blocks.size(number)};
  }
  const cut layers = cut_into_blocks(*data_, offsets_[number + 1] - offsets_[number], segments_);
  return {offsets_[number] + layers.begin(segment), layers.size(segment)};
}

}  // namespace lsched
