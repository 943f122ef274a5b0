// Reductions for the ranks of one node. Each block is combined by a single rank, its owner.
//
//   scatter   every rank sends block q of its input directly to rank q, which combines all blocks q in rank order
//   spread    allreduce only: rank q sends the result of block q to all others
//
// In each phase, a rank sends P-1 messages of one block, in one hop. The number of bytes is optimal: each rank sends
// and receives (P-1)/P of the vector per phase. In shared memory, every contribution is read once, without a copy. The
// arithmetic is divided evenly among ranks, and no rank waits for a chain of ranks. Compare "pairwise" and "linear" in
// Thakur, Rabenseifner and Gropp, 2005, section 4. Also compare the single-copy reductions of Jain, Kaleem, Balmana et
// al., "Framework for scalable intra-node collective operations using shared memory", SC'18.
//
// The vector is processed in segments that fit into caches. If peers cannot read input and output (shape::is_visible),
// a rank first copies outgoing data to scratch memory, a ring buffer of a few segments.
//
// Each element is computed once, by one expression in rank order. So all ranks get the same result, bit for bit, and
// the kernel need not be commutative.
#include <algorithm>
#include <array>
#include <vector>

#include "collectives/allreduce/allreduce.h"
#include "collectives/patterns/grid_part.h"

namespace lsched {
namespace {

std::uint32_t scatter_tag(std::uint64_t segment) { return static_cast<std::uint32_t>(2 * segment); }
std::uint32_t spread_tag(std::uint64_t segment) { return static_cast<std::uint32_t>(2 * segment + 1); }

constexpr std::uint64_t k_ring = 3;  ///< number of segments in the ring buffer

block_grid grid_of(bool spreads, const shape& data, rank size) {
  constexpr std::uint64_t k_piece_bytes = 32 * 1024;
  constexpr std::uint64_t k_most_segments = 64;
  return block_grid(spreads, data, size, k_piece_bytes, k_most_segments);
}

/// `spreads` is true for an allreduce and false for a reduce_scatter.
template <bool spreads>
class direct : grid_part {
 public:
  direct(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : grid_part(to, data, input, output, entry, spreads, grid_of(spreads, data, to.place().size)) {}

  // The fragment satisfies the conditions of builder::declare_holding: the reduction that reads a payload waits only
  // for payloads of lower ranks in the same segment. If data is copied to scratch memory, the reduction also waits for
  // the readers of an earlier segment.
  fragment write() {
    for (segment_ = 0; segment_ < grid().segments(); ++segment_) {
      scatter();
      const stretch sum = spreads && is_staged_ ? staged(self()) : result_of(segment_);
      reduce_into(sum);
      if (spreads) spread(sum);
    }
    put_back();
    return finish(true);
  }

 private:
  std::uint64_t own_count() const { return grid().at(self(), segment_).count; }

  /// Returns the scratch memory for a block of this segment.
  stretch staged(rank block) {
    if (ring_.empty()) ring_.resize(k_ring * wide(size()), {.cells = 0});
    stretch& slot = ring_[segment_ % k_ring * wide(size()) + wide(block)];
    if (slot.cells == 0) slot = scratch(grid().at(block, 0).count);
    return {slot.at, grid().at(block, segment_).count, slot.cell};
  }

  // --- phases ----------------------------------------------------------------------------------------------

  // Each rank begins with a different peer.
  void scatter() {
    for (rank distance = 1; distance < size(); ++distance) {
      const rank to = after(distance);
      stretch source = input_of(to, segment_);
      if (is_staged_) {
        const stretch stage = staged(to);
        copy(source, stage);
        source = stage;
      }
      send(to, scatter_tag(segment_), source);
    }
  }

  void reduce_into(const stretch& sum) {
    std::vector<stretch> operands(wide(size()));
    for (rank distance = 1; distance < size(); ++distance) {
      const rank from = before(distance);
      operands[wide(from)] = landing(own_count(), grid().at(self(), 0).count);
      recv(from, scatter_tag(segment_), operands[wide(from)]);
    }
    operands[wide(self())] = input_of(self(), segment_);
    if (size() == 1 && operands[0].cell != sum.cell) copy(operands[0], sum);
    stretch so_far = operands[0];
    for (rank r = 1; r < size(); ++r) {
      const stretch to = r < self() && sum.cell == operands[wide(self())].cell ? partial() : sum;
      reduce(so_far, operands[wide(r)], to);
      so_far = to;
    }
  }

  /// Returns memory for the sum over the lower ranks. In place, the output cannot be used, because it still contains
  /// this rank's contribution.
  stretch partial() {
    stretch& slot = partials_[segment_ % k_ring];
    if (slot.cells == 0) slot = scratch(grid().at(self(), 0).count);
    return {slot.at, own_count(), slot.cell};
  }

  void spread(const stretch& sum) {
    for (rank distance = 1; distance < size(); ++distance) send(after(distance), spread_tag(segment_), sum);
    for (rank distance = 1; distance < size(); ++distance) {
      const rank from = before(distance);
      recv(from, spread_tag(segment_), output_of(from, segment_));
    }
    if (is_staged_) copy(sum, output_of(self(), segment_));
  }

  const bool is_staged_ = !data().is_visible;
  std::uint64_t segment_ = 0;
  std::vector<stretch> ring_{};
  std::array<stretch, k_ring> partials_{{{.cells = 0}, {.cells = 0}, {.cells = 0}}};
};

// --- costs -------------------------------------------------------------------------------------------------

template <bool spreads>
cost cost_of_direct(rank size, const shape& data) {
  const block_grid grid = grid_of(spreads, data, size);
  const std::uint64_t phases = spreads ? 2 : 1;
  return {.messages = phases * wide(size) * (wide(size) - 1) * grid.segments(),
          .bytes = saturating_product(phases * (wide(size) - 1), bytes_of(grid.total(), data)),
          .hops = size == 1 ? 0 : phases};
}

template <bool spreads>
constexpr algorithm direct_of(const collective& of) {
  return {.of = &of,
          .name = "direct",
          .add = add_by<direct<spreads>>,
          .needs = {.summary = "one node: every block is combined by one rank, in segments; contributions are read "
                               "in place"},
          .cost_of = cost_of_direct<spreads>,
          .looks_at = {.segment = true, .is_visible = true}};
}

}  // namespace

constinit const algorithm k_allreduce_direct = direct_of<true>(k_allreduce);
constinit const algorithm k_reduce_scatter_direct = direct_of<false>(k_reduce_scatter);
constinit const algorithm k_reduce_scatter_block_direct = direct_of<false>(k_reduce_scatter_block);

}  // namespace lsched
