// Reductions around a ring: a rank exchanges messages only with its two neighbors, and every message is one block
// (Patarasu and Yuan, 2009).
//
//   reduce   P-1 steps: a rank sends the partial result of one block to the next rank, and receives the partial result
//            of another block from the previous rank. The rank combines the received partial result with its input.
//            After the last step, every rank has one block of the result
//   spread   allreduce only: P-1 steps, in which each rank forwards to the next rank the block that it received last
//
// In each phase, a rank sends P-1 messages of one block. This is bandwidth-optimal for any P, but takes P-1 hops.
// Blocks are sent in segments, so that a rank combines a segment while the next segment is in flight. The chain of each
// block begins at a different rank, so operands are not in rank order, and the kernel must be commutative. Every block
// is combined along one chain, so all ranks get the same result, bit for bit.
#include <algorithm>
#include <vector>

#include "collectives/allreduce/allreduce.h"
#include "collectives/patterns/grid_part.h"

namespace lsched {
namespace {

block_grid grid_of(bool spreads, const shape& data, rank size) {
  constexpr std::uint64_t k_piece_bytes = 64 * 1024;
  constexpr std::uint64_t k_most_segments = 16;
  return block_grid(spreads, data, size, k_piece_bytes, k_most_segments);
}

/// `spreads` is true for an allreduce and false for a reduce_scatter.
template <bool spreads>
class ring : grid_part {
 public:
  ring(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : grid_part(to, data, input, output, entry, spreads, grid_of(spreads, data, to.place().size)) {}

  // The fragment satisfies the conditions of builder::declare_holding: the reduction that reads a payload waits only
  // for earlier steps and their sends.
  fragment write() {
    if (size() == 1) {
      copy_alone(input_of(self(), 0), output_of(self(), 0));
      return finish(true);
    }
    for (rank r = 0; r < size(); ++r) longest_ = std::max(longest_, grid().at(r, 0).count);
    for (std::uint64_t i = 0; !spreads && size() > 2 && i < 2 * segments_; ++i) on_way_.push_back(scratch(longest_));
    for (rank step = 0; step < size() - 1; ++step)
      for (std::uint64_t segment = 0; segment < segments_; ++segment) combine(step, segment);
    for (rank step = 0; spreads && step < size() - 1; ++step)
      for (std::uint64_t segment = 0; segment < segments_; ++segment) spread(step, segment);
    put_back();
    return finish(true);
  }

 private:
  rank next() const { return after(1); }
  rank last() const { return before(1); }

  std::uint32_t tag_of(rank step, std::uint64_t segment) const {
    return static_cast<std::uint32_t>(wide(step) * segments_ + segment);
  }
  std::uint32_t spread_tag(rank step, std::uint64_t segment) const { return tag_of(size() - 1 + step, segment); }

  /// Returns the target of the reduction in a step.
  stretch target_of(rank step, rank block, std::uint64_t segment) const {
    if (spreads) return output_of(block, segment);
    if (step == size() - 2) return result_of(segment);
    stretch place = on_way_[wide(step % 2) * segments_ + segment];
    place.count = grid().at(block, segment).count;
    return place;
  }

  // --- phases ----------------------------------------------------------------------------------------------

  /// Returns the block that this rank sends in a step. In the next step, this rank sends the block that it receives in
  /// this step.
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

  const std::uint64_t segments_ = grid().segments();
  std::uint64_t longest_ = 0;      ///< number of elements of the longest piece
  std::vector<stretch> on_way_{};  ///< reduce_scatter: memory for the partial results of two steps
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
