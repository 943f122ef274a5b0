#include "collectives/allreduce/reduce_scatter_halving.h"

#include "collectives/patterns/ordered_ops.h"
#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

enum : std::uint32_t { k_fold_tag, k_half_tag, k_unfold_tag, k_first_step_tag };

/// Blocks of the ranks [first, end).
struct block_range {
  rank first = 0;
  rank end = 0;
};

/// The rank with which the blocks of core rank `index` begin: an extra's block follows its proxy's.
rank rank_at(const fold& folded, rank index) {
  return index < folded.core() ? folded.real_of(index) : folded.core() + folded.rem();
}

/// The ops of one rank while they are being written.
class halving {
 public:
  halving(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : self_(to.place().self),
        size_(to.place().size),
        in_place_(data.in_place),
        folded_(size_),
        offsets_(block_offsets(data, size_)),
        input_(input),
        output_(output),
        ops_(to, data, entry),
        input_cell_(ops_.new_cells(wide(size_))),
        output_cell_(in_place_ ? input_cell_ : ops_.new_cells(wide(size_))) {}

  // A payload is held for a reduction that waits for earlier steps.
  fragment write() {
    if (size_ == 1) {
      if (!in_place_) ops_.copy(in_input({0, 1}), output());
      return ops_.finish(true);
    }
    sums_ = ops_.scratch(offsets_.back(), wide(size_));
    if (folded_.is_extra(self_)) {
      write_extra();
    } else {
      write_core();
    }
    return ops_.finish(true);
  }

 private:
  // --- places ----------------------------------------------------------------------------------------------

  stretch part_of(buffer_id buffer, std::uint32_t cell, block_range it) const {
    const std::uint64_t begin = offsets_[static_cast<std::size_t>(it.first)];
    return {{buffer, begin},
            offsets_[static_cast<std::size_t>(it.end)] - begin,
            cell + static_cast<std::uint32_t>(it.first),
            static_cast<std::uint32_t>(it.end - it.first)};
  }
  stretch in_input(block_range it) const { return part_of(input_, input_cell_, it); }
  stretch in_sums(block_range it) const { return part_of(sums_.at.buffer(), sums_.cell, it); }
  /// In place it is the beginning of all blocks.
  stretch output() const {
    return {{output_, 0}, in_input({self_, self_ + 1}).count, output_cell_, static_cast<std::uint32_t>(size_)};
  }

  block_range lower_half() const { return {0, rank_at(folded_, folded_.core() / 2)}; }
  block_range upper_half() const { return {lower_half().end, size_}; }

  stretch receive(rank from, std::uint32_t tag, std::uint64_t count) {
    const stretch landing = ops_.scratch(count);
    ops_.recv(from, tag, landing);
    return landing;
  }

  // --- phases ----------------------------------------------------------------------------------------------

  void write_extra() {
    const rank proxy = folded_.proxy_of(self_);
    const stretch mine = in_sums(upper_half());
    ops_.send(proxy, k_fold_tag, in_input(lower_half()));
    ops_.reduce(receive(proxy, k_fold_tag, mine.count), in_input(upper_half()), mine);
    ops_.send(proxy, k_half_tag, mine);
    ops_.recv(proxy, k_unfold_tag, output());
  }

  void fold_in() {
    const rank extra = folded_.extra_of(self_);
    const stretch mine = in_sums(lower_half());
    ops_.send(extra, k_fold_tag, in_input(upper_half()));
    ops_.reduce(in_input(lower_half()), receive(extra, k_fold_tag, mine.count), mine);
    ops_.recv(extra, k_half_tag, in_sums(upper_half()));
  }

  void write_core() {
    const bool is_proxy = folded_.is_proxy(self_);
    if (is_proxy) fold_in();
    rank first = 0;
    for (rank reach = folded_.core() / 2; reach > 0; reach /= 2) first = step(first, reach, is_proxy);
    if (is_proxy) ops_.send(self_ + 1, k_unfold_tag, in_sums({self_ + 1, self_ + 2}));
    if (is_proxy || in_place_) ops_.copy(in_sums({self_, self_ + 1}), output());
  }

  /// Of the blocks of core ranks [first, first + 2 * reach) half are kept: answers with which they begin.
  rank step(rank first, rank reach, bool is_proxy) {
    const rank index = folded_.virtual_of(self_);
    const bool keeps_upper = (index & reach) != 0;
    const block_range lower{rank_at(folded_, first), rank_at(folded_, first + reach)};
    const block_range upper{lower.end, rank_at(folded_, first + 2 * reach)};
    const block_range kept = keeps_upper ? upper : lower, given = keeps_upper ? lower : upper;
    const bool is_in_sums = is_proxy || 2 * reach < folded_.core();
    const rank partner = folded_.real_of(index ^ reach);
    const std::uint32_t tag = k_first_step_tag + static_cast<std::uint32_t>(reach);

    ops_.send(partner, tag, is_in_sums ? in_sums(given) : in_input(given));
    const bool ends_here = reach == 1 && !is_proxy && !in_place_;
    const stretch target = ends_here ? output() : in_sums(kept);
    const stretch landing = receive(partner, tag, target.count);
    ops_.reduce(landing, is_in_sums ? in_sums(kept) : in_input(kept), target);
    return keeps_upper ? first + reach : first;
  }

  const rank self_;
  const rank size_;
  const bool in_place_;
  const fold folded_;
  const std::vector<std::uint64_t> offsets_;
  const buffer_id input_;
  const buffer_id output_;
  ordered_ops ops_;
  const std::uint32_t input_cell_;
  const std::uint32_t output_cell_;
  stretch sums_{};
};

// Extras give first; whether the chain's end is one too depends on who crosses all dimensions.
std::uint64_t hops_of(const fold& folded) {
  const auto levels = static_cast<std::uint64_t>(folded.levels());
  if (folded.rem() == 0) return levels;
  return levels + 2 + (2 * folded.rem() > folded.core() ? 1 : 0);
}

// Bytes. In step j, all blocks are held in 2^j parts, and each part has core / 2^(j+1) pairs that exchange all of it.
cost cost_of_halving(rank size, const shape& data, const activation&) {
  const fold folded(size);
  const auto offsets = block_offsets(data, size);
  const std::uint64_t total = offsets.back();
  const std::uint64_t upper =
      size == 1 ? 0 : total - offsets[static_cast<std::size_t>(rank_at(folded, folded.core() / 2))];
  std::uint64_t unfolded = 0;
  for (rank i = 0; i < folded.rem(); ++i) unfolded += block_count(data, folded.extra_of(2 * i));
  const std::uint64_t per_extra = saturating_sum(bytes_of(total, data), bytes_of(upper, data));
  const std::uint64_t steps = saturating_product(wide(folded.core()) - 1, bytes_of(total, data));
  return {.messages = static_cast<std::uint64_t>(folded.levels()) * wide(folded.core()) + 4 * wide(folded.rem()),
          .bytes = saturating_sum(saturating_sum(steps, saturating_product(wide(folded.rem()), per_extra)),
                                  bytes_of(unfolded, data)),
          .hops = hops_of(folded)};
}

constexpr constraints k_needs{
    .needs_commutative = true,
    .summary = "short blocks, any P, best at 2^k: log2 P steps, each half as long as the last"};

}  // namespace

constinit const algorithm k_reduce_scatter_halving{.of = &k_reduce_scatter,
                                                   .name = "recursive_halving",
                                                   .add = add_reduce_scatter_halving,
                                                   .needs = k_needs,
                                                   .cost_of = cost_of_halving};

constinit const algorithm k_reduce_scatter_block_halving{.of = &k_reduce_scatter_block,
                                                         .name = "recursive_halving",
                                                         .add = add_reduce_scatter_halving,
                                                         .needs = k_needs,
                                                         .cost_of = cost_of_halving};

fragment add_reduce_scatter_halving(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return halving(to, data, input, output, entry).write();
}

}  // namespace lsched
