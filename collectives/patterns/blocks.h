// Cuts a vector into blocks and segments. All ranks get the same cuts, because the cuts depend only on the shape and on
// the number of ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/algorithm/shape.h"
#include "libsched/schedule/geometry.h"

namespace lsched {

/// Cuts `count` elements of the shape's type into `parts` blocks. If blocks are long, they begin at cache lines of the
/// vector, which makes the cut slightly less even.
cut cut_into_blocks(const shape& data, std::uint64_t count, std::uint64_t parts);

/// Returns the offset of each block of cut_into_blocks(data, data.count, parts), and the end of the last block.
std::vector<std::uint64_t> block_begins(const shape& data, std::uint64_t parts);

/// A part of a block: the elements of the block that are in one segment.
struct piece {
  std::uint64_t begin = 0;  ///< index of the first element in the whole vector
  std::uint64_t count = 0;
};

/// One block for each rank, cut into segments that pipelines process one after the other.
class block_grid {
 public:
  /// If `is_vector` is true, a vector of data.count elements is cut into segments, and each segment into blocks.
  /// Otherwise each block of the shape is cut into segments. `piece_bytes` is the approximate length of a piece if the
  /// shape has no segment length. `most_segments` bounds the number of segments. A second bound keeps the number of
  /// messages so small that each message has a landing buffer of its own (ordered_ops.h). `data` must outlive the grid.
  block_grid(bool is_vector, const shape& data, rank size, std::uint64_t piece_bytes, std::uint64_t most_segments);

  std::uint64_t segments() const { return segments_; }
  std::uint64_t total() const { return offsets_.back(); }  ///< number of elements
  /// Returns one piece. The piece of segment 0 is the longest piece of its block.
  piece at(rank block, std::uint64_t segment) const;

 private:
  const shape* data_;
  std::uint64_t size_;
  std::uint64_t segments_ = 1;
  std::vector<std::uint64_t> offsets_;  ///< offsets of the blocks, and the end; for a vector only 0 and the end
};

}  // namespace lsched
