// How a vector is cut into blocks and segments. All ranks come to the same cuts, because nothing but the shape and the
// number of ranks goes into them.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/algorithm/shape.h"
#include "libsched/schedule/geometry.h"

namespace lsched {

/// `count` elements of the shape's type in `parts` blocks, which begin at cache lines of the vector if they are long
/// enough for that to be worth a less even cut.
cut cut_into_blocks(const shape& data, std::uint64_t count, std::uint64_t parts);

/// Where those blocks begin, and the end of the last.
std::vector<std::uint64_t> block_begins(const shape& data, std::uint64_t parts);

/// A block of some segment.
struct piece {
  std::uint64_t begin = 0;  ///< element of the whole vector
  std::uint64_t count = 0;
};

/// Blocks, one for each rank, in segments that pipelines treat one after the other.
class block_grid {
 public:
  /// A vector of data.count elements in segments, each of which is cut into blocks; or the blocks that the shape gives,
  /// each cut into segments. `piece_bytes`: about how long a piece is if the shape does not say; `most_segments` bounds
  /// their number, as does that of messages which land in buffers of their own (ordered_ops.h).
  block_grid(bool is_vector, const shape& data, rank size, std::uint64_t piece_bytes, std::uint64_t most_segments);

  std::uint64_t segments() const { return segments_; }
  std::uint64_t total() const { return offsets_.back(); }  ///< elements
  /// No piece of a block is longer than that of segment 0.
  piece at(rank block, std::uint64_t segment) const;

 private:
  const shape* data_;
  std::uint64_t size_;
  std::uint64_t segments_ = 1;
  std::vector<std::uint64_t> offsets_;  ///< of blocks, and the end; of a vector only 0 and the end
};

}  // namespace lsched
