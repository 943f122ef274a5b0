#include "collectives/allreduce/reduce_scatter_pairwise.h"

#include <optional>
#include <vector>

#include "collectives/patterns/ordered_ops.h"
#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

/// The ops of one rank while they are being written.
class pairwise {
 public:
  pairwise(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : self_(to.place().self),
        size_(to.place().size),
        in_place_(data.in_place),
        offsets_(block_offsets(data, size_)),
        input_(input),
        output_(output),
        ops_(to, data, entry),
        input_cell_(ops_.new_cells(wide(size_))),
        output_cell_(in_place_ ? input_cell_ : ops_.new_cells(wide(size_))) {}

  // A payload is held for the reductions of earlier steps, which wait for no send.
  fragment write() {
    part_sum lower{input_of(self_)};
    std::optional<part_sum> higher;
    op_id last = k_no_op;
    for (rank step = 1; step < size_; ++step) {
      const rank from = ring_before(self_, step, size_);
      ops_.send(ring_after(self_, step, size_), 0, input_of(ring_after(self_, step, size_)));
      ops_.wait_for(last);
      const stretch landing = ops_.landing(own_count(), own_count());
      last = ops_.recv(from, 0, landing);
      if (from < self_) {
        lower = join(landing, lower, step + 1 == size_);
      } else {
        higher = higher ? join(landing, *higher, false) : part_sum{landing};
      }
    }
    if (higher) lower = join(lower.place, *higher, true);
    if (lower.place.cell != output_cell_) ops_.copy(lower.place, output());
    return ops_.finish(true);
  }

 private:
  struct part_sum {
    stretch place;
    bool is_scratch = false;  ///< and may be written again
  };

  std::uint64_t begin_of(rank block) const { return offsets_[static_cast<std::size_t>(block)]; }
  std::uint64_t own_count() const { return begin_of(self_ + 1) - begin_of(self_); }

  stretch input_of(rank block) const {
    const std::uint64_t count = begin_of(block + 1) - begin_of(block);
    return {{input_, begin_of(block)}, count, input_cell_ + static_cast<std::uint32_t>(block)};
  }
  /// In place it is the beginning of all blocks.
  stretch output() const { return {{output_, 0}, own_count(), output_cell_, static_cast<std::uint32_t>(size_)}; }

  /// The last sum is the result. In place it stays elsewhere until the input has been read.
  part_sum join(const stretch& first, const part_sum& second, bool is_result) {
    const bool ends_here = is_result && !in_place_;
    const stretch target = ends_here ? output() : second.is_scratch ? second.place : ops_.scratch(own_count());
    ops_.reduce(first, second.place, target);
    return {target, !ends_here};
  }

  const rank self_;
  const rank size_;
  const bool in_place_;
  const std::vector<std::uint64_t> offsets_;
  const buffer_id input_;
  const buffer_id output_;
  ordered_ops ops_;
  const std::uint32_t input_cell_;
  const std::uint32_t output_cell_;
};

cost cost_of_pairwise(rank size, const shape& data, const activation&) {
  const std::uint64_t steps = wide(size) - 1;
  return {.messages = wide(size) * steps,
          .bytes = saturating_product(steps, bytes_of(block_offsets(data, size).back(), data)),
          .hops = steps};
}

constexpr constraints k_needs{.summary = "long blocks, any P: P-1 exchanges of one block, one after the other"};

}  // namespace

constinit const algorithm k_reduce_scatter_pairwise{
    .of = &k_reduce_scatter,
    .name = "pairwise",
    .generate = generated<k_reduce_scatter_pairwise, add_reduce_scatter_pairwise>,
    .needs = k_needs,
    .cost_of = cost_of_pairwise};

constinit const algorithm k_reduce_scatter_block_pairwise{
    .of = &k_reduce_scatter_block,
    .name = "pairwise",
    .generate = generated<k_reduce_scatter_block_pairwise, add_reduce_scatter_pairwise>,
    .needs = k_needs,
    .cost_of = cost_of_pairwise};

fragment add_reduce_scatter_pairwise(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return pairwise(to, data, input, output, entry).write();
}

}  // namespace lsched
