// Cuts a vector into blocks and segments. All ranks get the same cuts, because the cuts depend only on the shape and on
// the number of ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/algorithm/shape.h"
#include "libsched/schedule/geometry.h"

namespace lsched {

/// Cuts `count` elements of the shape's type into `parts` blocks. Long blocks begin at cache lines of the vector, so
/// their lengths can differ by more than one element.
cut cut_into_blocks(const shape& data, std::uint64_t count, std::uint64_t parts);

/// Returns the offset of each block of cut_into_blocks(data, data.count, parts), and finally the end of the last block.
std::vector<std::uint64_t> block_begins(const shape& data, std::uint64_t parts);

/// A piece: the elements of a block that are in one segment.
struct piece {
  std::uint64_t begin = 0;  ///< index of the first element in the whole vector
  std::uint64_t count = 0;
};

/// A vector that is divided into one block for each rank, and into segments. A pipeline processes the segments one
/// after the other.
class block_grid {
 public:
  /// If `is_vector` is true, a vector of data.count elements is cut into segments, and each segment into blocks.
  /// Otherwise each block of the shape is cut into segments. `piece_bytes` is the approximate length of a piece if the
  /// shape has no segment length. The number of segments is at most `most_segments`, and small enough that each message
  /// has its own buffer (ordered_ops::landing). `data` must outlive the grid.
  block_grid(bool is_vector, const shape& data, rank size, std::uint64_t piece_bytes, std::uint64_t most_segments);

  std::uint64_t segments() const { return segments_; }
  std::uint64_t total() const { return offsets_.back(); }  ///< number of elements of all blocks
  /// Returns the elements of a block that are in a segment. In each block, no piece is longer than the piece of segment
  /// 0.
  piece at(rank block, std::uint64_t segment) const;

 private:
  const shape* data_;
  std::uint64_t size_;
  std::uint64_t segments_ = 1;
  std::vector<std::uint64_t> offsets_;  ///< offsets of the blocks, then the end; for a vector only 0 and the end
};

}  // namespace lsched
