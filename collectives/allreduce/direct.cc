#include "collectives/allreduce/direct.h"

#include <algorithm>
#include <array>
#include <vector>

#include "collectives/patterns/blocks.h"
#include "collectives/patterns/ordered_ops.h"

namespace lsched {
namespace {

std::uint32_t scatter_tag(std::uint64_t segment) { return static_cast<std::uint32_t>(2 * segment); }
std::uint32_t spread_tag(std::uint64_t segment) { return static_cast<std::uint32_t>(2 * segment + 1); }

constexpr std::uint64_t k_piece_bytes = 32 * 1024;
constexpr std::uint64_t k_most_segments = 64;
constexpr std::uint64_t k_most_pieces = 8192;  ///< of a block each; there are not many more buffers for them to land in
constexpr std::uint64_t k_ring = 3;            ///< segments that are staged at once

std::uint64_t most_segments(rank size) { return size == 1 ? 1 : std::min(k_most_segments, k_most_pieces / wide(size)); }

block_grid grid_of(const collective& of, const shape& data, rank size) {
  const auto make = &of == &k_allreduce ? block_grid::of_vector : block_grid::of_blocks;
  return make(data, size, k_piece_bytes, most_segments(size));
}

/// The ops of one rank while they are being written.
class direct {
 public:
  direct(builder& to, const collective& of, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : self_(to.place().self),
        size_(to.place().size),
        data_(data),
        grid_(grid_of(of, data, size_)),
        spreads_(&of == &k_allreduce),
        is_staged_(!data.is_visible),
        input_(input),
        output_(output),
        ops_(to, data, entry) {}

  // A payload is held for a reduction that waits for lower ranks' payloads of the same segment and, where staged, for
  // the readers of an earlier one.
  fragment write() {
    const std::uint64_t pieces = wide(size_) * grid_.segments();
    input_cell_ = output_cell_ = ops_.new_cells(pieces);
    if (!data_.in_place) output_cell_ = ops_.new_cells(pieces);
    if (is_set_aside()) aside_ = ops_.scratch(own_count(), grid_.segments());
    for (segment_ = 0; segment_ < grid_.segments(); ++segment_) {
      scatter();
      const stretch sum = target();
      reduce_into(sum);
      if (spreads_) spread(sum);
    }
    // The output is the input's beginning, and may be that of any blocks.
    if (is_set_aside()) ops_.copy(aside_, {{output_, 0}, own_count(), input_cell_, static_cast<std::uint32_t>(pieces)});
    return ops_.finish(true);
  }

 private:
  // --- places ----------------------------------------------------------------------------------------------

  /// A reduce_scatter in place has its result elsewhere until all of the input has been read.
  bool is_set_aside() const { return data_.in_place && !spreads_; }

  piece own() const { return grid_.at(self_, segment_); }
  std::uint64_t own_count() const {
    const piece last = grid_.at(self_, grid_.segments() - 1);
    return last.begin + last.count - grid_.at(self_, 0).begin;
  }

  std::uint32_t cell_of(rank block) const { return static_cast<std::uint32_t>(segment_ * wide(size_) + wide(block)); }

  stretch input_of(rank block) const {
    const piece it = grid_.at(block, segment_);
    return {{input_, it.begin}, it.count, input_cell_ + cell_of(block)};
  }

  /// Of a reduce_scatter, the output is the own block alone.
  stretch output_of(rank block) const {
    const piece it = grid_.at(block, segment_);
    const std::uint64_t begin = spreads_ ? it.begin : it.begin - grid_.at(self_, 0).begin;
    return {{output_, begin}, it.count, output_cell_ + cell_of(block)};
  }

  stretch target() {
    if (is_set_aside()) {
      const std::uint64_t begin = own().begin - grid_.at(self_, 0).begin;
      return {{aside_.at.buffer(), begin}, own().count, aside_.cell + static_cast<std::uint32_t>(segment_)};
    }
    return spreads_ && is_staged_ ? staged(self_) : output_of(self_);
  }

  /// The place in the ring for a block of this segment.
  stretch staged(rank block) {
    if (ring_.empty()) ring_.resize(k_ring * wide(size_), {.cells = 0});
    stretch& it = ring_[segment_ % k_ring * wide(size_) + wide(block)];
    if (it.cells == 0) it = ops_.scratch(grid_.at(block, 0).count);
    return {it.at, grid_.at(block, segment_).count, it.cell};
  }

  // --- phases ----------------------------------------------------------------------------------------------

  // Every rank begins with another peer.
  void scatter() {
    for (rank distance = 1; distance < size_; ++distance) {
      const rank to = ring_after(self_, distance, size_);
      stretch source = input_of(to);
      if (is_staged_) {
        const stretch stage = staged(to);
        ops_.copy(source, stage);
        source = stage;
      }
      ops_.send(to, scatter_tag(segment_), source);
    }
  }

  void reduce_into(const stretch& sum) {
    std::vector<stretch> operands(static_cast<std::size_t>(size_));
    for (rank distance = 1; distance < size_; ++distance) {
      const rank from = ring_before(self_, distance, size_);
      const stretch it = ops_.landing(own().count, grid_.at(self_, 0).count);
      ops_.recv(from, scatter_tag(segment_), it);
      operands[static_cast<std::size_t>(from)] = it;
    }
    operands[static_cast<std::size_t>(self_)] = input_of(self_);
    if (size_ == 1 && operands[0].cell != sum.cell) ops_.copy(operands[0], sum);
    stretch so_far = operands[0];
    for (rank r = 1; r < size_; ++r) {
      const stretch to = r < self_ && sum.cell == operands[static_cast<std::size_t>(self_)].cell ? partial() : sum;
      ops_.reduce(so_far, operands[static_cast<std::size_t>(r)], to);
      so_far = to;
    }
  }

  /// In place, the sum of the ranks below: the result lies where the own contribution still is.
  stretch partial() {
    stretch& it = partials_[segment_ % k_ring];
    if (it.cells == 0) it = ops_.scratch(grid_.at(self_, 0).count);
    return {it.at, own().count, it.cell};
  }

  void spread(const stretch& sum) {
    for (rank distance = 1; distance < size_; ++distance)
      ops_.send(ring_after(self_, distance, size_), spread_tag(segment_), sum);
    for (rank distance = 1; distance < size_; ++distance) {
      const rank from = ring_before(self_, distance, size_);
      ops_.recv(from, spread_tag(segment_), output_of(from));
    }
    if (is_staged_) ops_.copy(sum, output_of(self_));
  }

  const rank self_;
  const rank size_;
  const shape& data_;
  const block_grid grid_;
  const bool spreads_;
  const bool is_staged_;
  const buffer_id input_;
  const buffer_id output_;
  ordered_ops ops_;
  std::uint64_t segment_ = 0;
  std::uint32_t input_cell_ = 0;
  std::uint32_t output_cell_ = 0;
  stretch aside_{};
  std::vector<stretch> ring_{};
  std::array<stretch, k_ring> partials_{{{.cells = 0}, {.cells = 0}, {.cells = 0}}};
};

// --- costs -------------------------------------------------------------------------------------------------

cost cost_of_direct(const collective& of, rank size, const shape& data, std::uint64_t phases) {
  const block_grid grid = grid_of(of, data, size);
  const std::uint64_t messages = phases * wide(size) * (wide(size) - 1) * grid.segments();
  return {.messages = messages,
          .bytes = saturating_product(phases * (wide(size) - 1), bytes_of(grid.total(), data)),
          .hops = size == 1 ? 0 : phases};
}

cost cost_of_allreduce(rank size, const shape& data, const activation&) {
  return cost_of_direct(k_allreduce, size, data, 2);
}

cost cost_of_reduce_scatter(rank size, const shape& data, const activation&) {
  return cost_of_direct(k_reduce_scatter, size, data, 1);
}

constexpr constraints k_needs{
    .summary = "one node: every block is combined by one rank, in segments; contributions are read where they lie"};

}  // namespace

constinit const algorithm k_allreduce_direct{.of = &k_allreduce,
                                             .name = "direct",
                                             .add = add_allreduce_direct,
                                             .needs = k_needs,
                                             .cost_of = cost_of_allreduce,
                                             .looks_at = {.segment = true, .is_visible = true}};

constinit const algorithm k_reduce_scatter_direct{.of = &k_reduce_scatter,
                                                  .name = "direct",
                                                  .add = add_reduce_scatter_direct,
                                                  .needs = k_needs,
                                                  .cost_of = cost_of_reduce_scatter,
                                                  .looks_at = {.segment = true, .is_visible = true}};

constinit const algorithm k_reduce_scatter_block_direct{.of = &k_reduce_scatter_block,
                                                        .name = "direct",
                                                        .add = add_reduce_scatter_direct,
                                                        .needs = k_needs,
                                                        .cost_of = cost_of_reduce_scatter,
                                                        .looks_at = {.segment = true, .is_visible = true}};

fragment add_allreduce_direct(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return direct(to, k_allreduce, data, input, output, entry).write();
}

fragment add_reduce_scatter_direct(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return direct(to, k_reduce_scatter, data, input, output, entry).write();
}

}  // namespace lsched
