// Base of reductions that combine blocks segment by segment.
#pragma once

#include "collectives/patterns/blocks.h"
#include "collectives/patterns/ordered_ops.h"

namespace lsched {

/// The ops of one rank. Each piece of a grid is a cell, and ops are ordered by cells (ordered_ops.h). `spreads` is true
/// for an allreduce, and false for a reduce_scatter. The output of a reduce_scatter is only the rank's own block.
class grid_part : public ordered_part {
 public:
  grid_part(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry, bool spreads,
            const block_grid& grid)
      : ordered_part(to, data, input, output, entry), grid_(grid), spreads_(spreads) {
    set_cells(cells());
    if (is_set_aside()) aside_ = scratch(own_count(), grid.segments());
  }

 protected:
  const block_grid& grid() const { return grid_; }
  stretch input_of(rank block, std::uint64_t segment) const {
    const piece part = grid_.at(block, segment);
    return {{input(), part.begin}, part.count, input_cell() + cell_of(block, segment)};
  }
  stretch output_of(rank block, std::uint64_t segment) const {
    const piece part = grid_.at(block, segment);
    const std::uint64_t first = spreads_ ? 0 : grid_.at(self(), 0).begin;
    return {{output(), part.begin - first}, part.count, output_cell() + cell_of(block, segment)};
  }

  /// Returns the memory for the result of a segment of the rank's own block. An in-place reduce_scatter uses scratch
  /// memory, because its output shares memory with the beginning of the input. This memory can still contain unread
  /// blocks.
  stretch result_of(std::uint64_t segment) const {
    const stretch result = output_of(self(), segment);
    if (!is_set_aside()) return result;
    return {{aside_.at.buffer(), result.at.offset()}, result.count, aside_.cell + static_cast<std::uint32_t>(segment)};
  }
  /// Copies the result from scratch memory to the output, if scratch memory was used.
  void put_back() {
    if (is_set_aside()) copy(aside_, {{output(), 0}, aside_.count, output_cell(), static_cast<std::uint32_t>(cells())});
  }

 private:
  bool is_set_aside() const { return in_place() && !spreads_ && size() > 1; }
  std::uint64_t cells() const { return wide(size()) * grid_.segments(); }
  std::uint32_t cell_of(rank block, std::uint64_t segment) const {
    return static_cast<std::uint32_t>(segment * wide(size()) + wide(block));
  }
  std::uint64_t own_count() const {
    const piece last = grid_.at(self(), grid_.segments() - 1);
    return last.begin + last.count - grid_.at(self(), 0).begin;
  }

  const block_grid grid_;
  const bool spreads_;
  stretch aside_{};
};

}  // namespace lsched
