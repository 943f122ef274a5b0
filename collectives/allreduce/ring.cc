#include "collectives/allreduce/ring.h"

#include <algorithm>
#include <vector>

#include "collectives/patterns/blocks.h"
#include "collectives/patterns/ordered_ops.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_piece_bytes = 64 * 1024;
constexpr std::uint64_t k_most_segments = 16;
constexpr std::uint64_t k_most_pieces = 8192;  ///< there are not many more buffers for them to land in

std::uint64_t most_segments(rank size) { return size == 1 ? 1 : std::min(k_most_segments, k_most_pieces / wide(size)); }

block_grid grid_of(const collective& of, const shape& data, rank size) {
  const auto make = &of == &k_allreduce ? block_grid::of_vector : block_grid::of_blocks;
  return make(data, size, k_piece_bytes, most_segments(size));
}

/// The ops of one rank while they are being written.
class ring {
 public:
  ring(builder& to, const collective& of, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : self_(to.place().self),
        size_(to.place().size),
        in_place_(data.in_place),
        spreads_(&of == &k_allreduce),
        grid_(grid_of(of, data, size_)),
        segments_(grid_.segments()),
        input_(input),
        output_(output),
        ops_(to, data, entry) {
    const std::uint64_t pieces = wide(size_) * segments_;
    input_cell_ = output_cell_ = ops_.new_cells(pieces);
    if (!in_place_) output_cell_ = ops_.new_cells(pieces);
  }

  // A payload is held for a reduction that waits for earlier steps and their sends.
  fragment write() {
    if (size_ == 1) {
      if (!in_place_) ops_.copy(input_of(self_, 0), output_of(self_, 0));
      return ops_.finish(true);
    }
    for (rank r = 0; r < size_; ++r) longest_ = std::max(longest_, grid_.at(r, 0).count);
    if (!spreads_) reserve();
    for (rank step = 0; step < size_ - 1; ++step)
      for (std::uint64_t segment = 0; segment < segments_; ++segment) reduce(step, segment);
    for (rank step = 0; spreads_ && step < size_ - 1; ++step)
      for (std::uint64_t segment = 0; segment < segments_; ++segment) spread(step, segment);
    if (!spreads_ && in_place_) ops_.copy(aside_, all_of_output());
    return ops_.finish(true);
  }

 private:
  rank next() const { return ring_after(self_, 1, size_); }
  rank last() const { return ring_before(self_, 1, size_); }

  std::uint32_t tag_of(rank step, std::uint64_t segment) const {
    return static_cast<std::uint32_t>(wide(step) * segments_ + segment);
  }
  std::uint32_t spread_tag(rank step, std::uint64_t segment) const { return tag_of(size_ - 1 + step, segment); }

  // --- places ----------------------------------------------------------------------------------------------

  stretch piece_of(buffer_id buffer, std::uint32_t cell, piece it, rank block, std::uint64_t segment) const {
    return {{buffer, it.begin}, it.count, cell + static_cast<std::uint32_t>(wide(block) * segments_ + segment)};
  }
  stretch input_of(rank block, std::uint64_t segment) const {
    return piece_of(input_, input_cell_, grid_.at(block, segment), block, segment);
  }
  /// Of a reduce_scatter, the output is the own block alone.
  stretch output_of(rank block, std::uint64_t segment) const {
    piece it = grid_.at(block, segment);
    if (!spreads_) it.begin -= grid_.at(self_, 0).begin;
    return piece_of(output_, output_cell_, it, block, segment);
  }
  stretch all_of_output() const {
    return {{output_, 0}, aside_.count, output_cell_, static_cast<std::uint32_t>(wide(size_) * segments_)};
  }

  /// Of a reduce_scatter: what is on its way, two steps at a time, and in place the result until the input has been
  /// read.
  void reserve() {
    for (std::uint64_t i = 0; i < 2 * segments_ && size_ > 2; ++i) on_way_.push_back(ops_.scratch(longest_));
    const piece end = grid_.at(self_, segments_ - 1);
    if (in_place_) aside_ = ops_.scratch(end.begin + end.count - grid_.at(self_, 0).begin, segments_);
  }

  /// Where what step `step` combines goes.
  stretch target_of(rank step, rank block, std::uint64_t segment) const {
    if (spreads_) return output_of(block, segment);
    stretch place = output_of(self_, segment);
    if (step == size_ - 2 && !in_place_) return place;
    if (step == size_ - 2)
      return {{aside_.at.buffer(), place.at.offset()}, place.count, aside_.cell + static_cast<std::uint32_t>(segment)};
    place = on_way_[wide(step % 2) * segments_ + segment];
    place.count = grid_.at(block, segment).count;
    return place;
  }

  // --- phases ----------------------------------------------------------------------------------------------

  /// The block that the rank sends in a step; in the next step it sends what it receives in this one.
  rank block_sent(rank step) const {
    const rank first = spreads_ ? self_ : last();
    return ring_before(first, step, size_);
  }

  void reduce(rank step, std::uint64_t segment) {
    const rank given = block_sent(step);
    const rank taken = ring_before(given, 1, size_);
    const std::uint32_t tag = tag_of(step, segment);
    ops_.send(next(), tag, step == 0 ? input_of(given, segment) : target_of(step - 1, given, segment));
    const stretch target = target_of(step, taken, segment);
    const stretch landing = ops_.landing(target.count, longest_);
    ops_.recv(last(), tag, landing);
    ops_.reduce(landing, input_of(taken, segment), target);
  }

  void spread(rank step, std::uint64_t segment) {
    const rank given = ring_before(next(), step, size_);
    ops_.send(next(), spread_tag(step, segment), output_of(given, segment));
    ops_.recv(last(), spread_tag(step, segment), output_of(ring_before(given, 1, size_), segment));
  }

  const rank self_;
  const rank size_;
  const bool in_place_;
  const bool spreads_;
  const block_grid grid_;
  const std::uint64_t segments_;
  const buffer_id input_;
  const buffer_id output_;
  ordered_ops ops_;
  std::uint32_t input_cell_ = 0;
  std::uint32_t output_cell_ = 0;
  std::uint64_t longest_ = 0;  ///< piece
  std::vector<stretch> on_way_{};
  stretch aside_{};
};

// --- costs -------------------------------------------------------------------------------------------------

cost cost_of_ring(const collective& of, rank size, const shape& data, std::uint64_t phases) {
  const block_grid grid = grid_of(of, data, size);
  const std::uint64_t steps = phases * (wide(size) - 1);
  return {.messages = saturating_product(steps * wide(size), grid.segments()),
          .bytes = saturating_product(steps, bytes_of(grid.total(), data)),
          .hops = steps};
}

cost cost_of_allreduce(rank size, const shape& data, const activation&) {
  return cost_of_ring(k_allreduce, size, data, 2);
}

cost cost_of_reduce_scatter(rank size, const shape& data, const activation&) {
  return cost_of_ring(k_reduce_scatter, size, data, 1);
}

constexpr constraints k_needs{
    .needs_commutative = true,
    .summary = "the longest vectors, any P; segments around a ring of neighbours, P-1 steps a phase"};

}  // namespace

constinit const algorithm k_allreduce_ring{.of = &k_allreduce,
                                           .name = "ring",
                                           .add = add_allreduce_ring,
                                           .needs = k_needs,
                                           .cost_of = cost_of_allreduce,
                                           .looks_at = {.segment = true}};

constinit const algorithm k_reduce_scatter_ring{.of = &k_reduce_scatter,
                                                .name = "ring",
                                                .add = add_reduce_scatter_ring,
                                                .needs = k_needs,
                                                .cost_of = cost_of_reduce_scatter,
                                                .looks_at = {.segment = true}};

constinit const algorithm k_reduce_scatter_block_ring{.of = &k_reduce_scatter_block,
                                                      .name = "ring",
                                                      .add = add_reduce_scatter_ring,
                                                      .needs = k_needs,
                                                      .cost_of = cost_of_reduce_scatter,
                                                      .looks_at = {.segment = true}};

fragment add_allreduce_ring(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return ring(to, k_allreduce, data, input, output, entry).write();
}

fragment add_reduce_scatter_ring(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return ring(to, k_reduce_scatter, data, input, output, entry).write();
}

}  // namespace lsched
