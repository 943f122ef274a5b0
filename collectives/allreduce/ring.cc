// Reductions around a ring: neighbours alone talk to each other, and every message is one block (Patarasu and Yuan,
// 2009).
//
//   reduce   P-1 steps: a rank sends what it has combined of a block to the next rank and combines what the one before
//            sends of another; then every rank has one block of the result
//   spread   allreduce only: P-1 steps in which the blocks go around
//
// P-1 messages of a block per rank and phase: bandwidth-optimal for any P, at P-1 hops a phase. Blocks travel in
// segments, so that a rank combines one while the next is on its way. The ring begins at another rank for each block,
// so operands are not in rank order: the kernel must commute. Every block is combined along one chain: the same bits on
// all ranks.
#include <algorithm>
#include <vector>

#include "collectives/allreduce/allreduce.h"
#include "collectives/patterns/blocks.h"
#include "collectives/patterns/ordered_ops.h"

namespace lsched {
namespace {

block_grid grid_of(bool spreads, const shape& data, rank size) {
  constexpr std::uint64_t k_piece_bytes = 64 * 1024;
  constexpr std::uint64_t k_most_segments = 16;
  return block_grid::of(spreads, data, size, k_piece_bytes, k_most_segments);
}

/// `spreads`: of an allreduce.
template <bool spreads>
class ring : ordered_part {
 public:
  ring(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : ordered_part(to, data, input, output, entry), grid_(grid_of(spreads, data, size())) {
    set_cells(wide(size()) * segments_);
  }

  // A payload is held for a reduction that waits for earlier steps and their sends.
  fragment write() {
    if (size() == 1) {
      copy_alone(input_of(self(), 0), output_of(self(), 0));
      return finish(true);
    }
    for (rank r = 0; r < size(); ++r) longest_ = std::max(longest_, grid_.at(r, 0).count);
    if (!spreads) reserve();
    for (rank step = 0; step < size() - 1; ++step)
      for (std::uint64_t segment = 0; segment < segments_; ++segment) combine(step, segment);
    for (rank step = 0; spreads && step < size() - 1; ++step)
      for (std::uint64_t segment = 0; segment < segments_; ++segment) spread(step, segment);
    if (!spreads && in_place()) copy(aside_, all_of_output());
    return finish(true);
  }

 private:
  rank next() const { return after(1); }
  rank last() const { return before(1); }

  std::uint32_t tag_of(rank step, std::uint64_t segment) const {
    return static_cast<std::uint32_t>(wide(step) * segments_ + segment);
  }
  std::uint32_t spread_tag(rank step, std::uint64_t segment) const { return tag_of(size() - 1 + step, segment); }

  // --- places ----------------------------------------------------------------------------------------------

  stretch piece_of(buffer_id buffer, std::uint32_t cell, piece part, rank block, std::uint64_t segment) const {
    return {{buffer, part.begin}, part.count, cell + static_cast<std::uint32_t>(wide(block) * segments_ + segment)};
  }
  stretch input_of(rank block, std::uint64_t segment) const {
    return piece_of(input(), input_cell(), grid_.at(block, segment), block, segment);
  }
  /// Of a reduce_scatter, the output is the own block alone.
  stretch output_of(rank block, std::uint64_t segment) const {
    piece part = grid_.at(block, segment);
    if (!spreads) part.begin -= grid_.at(self(), 0).begin;
    return piece_of(output(), output_cell(), part, block, segment);
  }
  stretch all_of_output() const {
    return {{output(), 0}, aside_.count, output_cell(), static_cast<std::uint32_t>(wide(size()) * segments_)};
  }

  /// Of a reduce_scatter: what is on its way, two steps at a time, and in place the result until the input has been
  /// read.
  void reserve() {
    for (std::uint64_t i = 0; i < 2 * segments_ && size() > 2; ++i) on_way_.push_back(scratch(longest_));
    const piece end = grid_.at(self(), segments_ - 1);
    if (in_place()) aside_ = scratch(end.begin + end.count - grid_.at(self(), 0).begin, segments_);
  }

  /// Where what step `step` combines goes.
  stretch target_of(rank step, rank block, std::uint64_t segment) const {
    if (spreads) return output_of(block, segment);
    stretch place = output_of(self(), segment);
    if (step == size() - 2 && !in_place()) return place;
    if (step == size() - 2)
      return {{aside_.at.buffer(), place.at.offset()}, place.count, aside_.cell + static_cast<std::uint32_t>(segment)};
    place = on_way_[wide(step % 2) * segments_ + segment];
    place.count = grid_.at(block, segment).count;
    return place;
  }

  // --- phases ----------------------------------------------------------------------------------------------

  /// The block that the rank sends in a step; in the next step it sends what it receives in this one.
  rank block_sent(rank step) const {
    const rank first = spreads ? self() : last();
    return ring_before(first, step, size());
  }

  void combine(rank step, std::uint64_t segment) {
    const rank given = block_sent(step);
    const rank taken = ring_before(given, 1, size());
    const std::uint32_t tag = tag_of(step, segment);
    send(next(), tag, step == 0 ? input_of(given, segment) : target_of(step - 1, given, segment));
    const stretch target = target_of(step, taken, segment);
    const stretch arrived = landing(target.count, longest_);
    recv(last(), tag, arrived);
    reduce(arrived, input_of(taken, segment), target);
  }

  void spread(rank step, std::uint64_t segment) {
    const rank given = ring_before(next(), step, size());
    send(next(), spread_tag(step, segment), output_of(given, segment));
    recv(last(), spread_tag(step, segment), output_of(ring_before(given, 1, size()), segment));
  }

  const block_grid grid_;
  const std::uint64_t segments_ = grid_.segments();
  std::uint64_t longest_ = 0;  ///< piece
  std::vector<stretch> on_way_{};
  stretch aside_{};
};

// --- costs -------------------------------------------------------------------------------------------------

template <bool spreads>
cost cost_of_ring(rank size, const shape& data) {
  const block_grid grid = grid_of(spreads, data, size);
  const std::uint64_t steps = (spreads ? 2 : 1) * (wide(size) - 1);
  return {.messages = saturating_product(steps * wide(size), grid.segments()),
          .bytes = saturating_product(steps, bytes_of(grid.total(), data)),
          .hops = steps};
}

template <bool spreads>
constexpr algorithm ring_of(const collective& of) {
  return {.of = &of,
          .name = "ring",
          .add = add_by<ring<spreads>>,
          .needs = {.needs_commutative = true,
                    .summary = "the longest vectors, any P; segments around a ring of neighbours, P-1 steps a phase"},
          .cost_of = cost_of_ring<spreads>,
          .looks_at = {.segment = true}};
}

}  // namespace

constinit const algorithm k_allreduce_ring = ring_of<true>(k_allreduce);
constinit const algorithm k_reduce_scatter_ring = ring_of<false>(k_reduce_scatter);
constinit const algorithm k_reduce_scatter_block_ring = ring_of<false>(k_reduce_scatter_block);

}  // namespace lsched
