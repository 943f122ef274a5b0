#include "collectives/allreduce/circulant.h"

#include <algorithm>
#include <array>
#include <vector>

#include "collectives/patterns/blocks.h"
#include "collectives/patterns/ordered_ops.h"

namespace lsched {
namespace {

/// A round: blocks [skip, end), counted from the own one, leave for the rank `skip` places on.
struct circulant_round {
  rank skip = 0;
  rank end = 0;
};

std::vector<circulant_round> rounds_of(rank size) {
  std::vector<circulant_round> rounds;
  for (rank end = size; end > 1; end = rounds.back().skip) rounds.push_back({end - end / 2, end});
  return rounds;
}

std::vector<std::uint64_t> begins_of(const collective& of, const shape& data, rank size) {
  if (&of != &k_allreduce) return block_offsets(data, size);
  const cut blocks = cut_into_blocks(data, data.count, wide(size));
  std::vector<std::uint64_t> begins;
  for (rank r = 0; r <= size; ++r) begins.push_back(blocks.begin(wide(r)));
  return begins;
}

/// The ops of one rank while they are being written.
class circulant {
 public:
  circulant(builder& to, const collective& of, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : self_(to.place().self),
        size_(to.place().size),
        in_place_(data.in_place),
        spreads_(&of == &k_allreduce),
        rounds_(rounds_of(size_)),
        begins_(begins_of(of, data, size_)),
        input_(input),
        output_(output),
        ops_(to, data, entry) {
    input_cell_ = output_cell_ = ops_.new_cells(wide(size_));
    if (!in_place_) output_cell_ = ops_.new_cells(wide(size_));
  }

  // A payload is held for a reduction that waits for earlier rounds, and in place for their sends.
  fragment write() {
    if (size_ == 1) {
      if (!in_place_) ops_.copy(in_input({0, 1}), in_output({0, 1}));
      return ops_.finish(true);
    }
    sums_ = in_output({0, size_});
    if (!spreads_) sums_ = ops_.scratch(begins_.back(), wide(size_));
    for (std::size_t i = 0; i < rounds_.size(); ++i) combine(i);
    if (!spreads_ && in_place_) ops_.copy(in_sums({self_, self_ + 1}), own_output());
    for (std::size_t i = rounds_.size(); spreads_ && i-- > 0;) spread(i);
    return ops_.finish(true);
  }

 private:
  /// Neighbouring blocks, by their real numbers.
  struct block_range {
    rank first = 0;
    rank end = 0;
  };

  /// The first and the second part of blocks [first, end), counted around the ring from the own one; one may be empty.
  std::array<block_range, 2> parts_of(rank first, rank end) const {
    const rank head = std::min(end - first, size_ - ring_after(self_, first, size_));
    const rank begin = ring_after(self_, first, size_);
    return {{{begin, begin + head}, {0, end - first - head}}};
  }

  // --- places ----------------------------------------------------------------------------------------------

  std::uint64_t begin_of(rank block) const { return begins_[static_cast<std::size_t>(block)]; }

  stretch part_of(buffer_id buffer, std::uint32_t cell, block_range it) const {
    return {{buffer, begin_of(it.first)},
            begin_of(it.end) - begin_of(it.first),
            cell + static_cast<std::uint32_t>(it.first),
            static_cast<std::uint32_t>(it.end - it.first)};
  }
  stretch in_input(block_range it) const { return part_of(input_, input_cell_, it); }
  stretch in_output(block_range it) const { return part_of(output_, output_cell_, it); }
  stretch in_sums(block_range it) const { return part_of(sums_.at.buffer(), sums_.cell, it); }

  /// A reduce_scatter's, which in place is the beginning of all blocks.
  stretch own_output() const {
    const std::uint64_t count = begin_of(self_ + 1) - begin_of(self_);
    return {{output_, 0}, count, output_cell_, static_cast<std::uint32_t>(size_)};
  }

  // --- rounds ----------------------------------------------------------------------------------------------

  static std::uint32_t tag_of(std::size_t round, std::size_t part, bool is_spread) {
    return static_cast<std::uint32_t>(4 * round + 2 * part + (is_spread ? 1 : 0));
  }

  // In the first round, what is sent and combined is still in the input. All blocks below its skip but one are
  // combined: that one follows by a copy if P is odd.
  void combine(std::size_t round) {
    const auto [skip, end] = rounds_[round];
    const bool is_first = round == 0, is_last = round + 1 == rounds_.size();
    const rank to = ring_after(self_, skip, size_), from = ring_before(self_, skip, size_);
    const auto given = parts_of(skip, end), taken = parts_of(0, end - skip);
    for (std::size_t part = 0; part < 2; ++part)
      if (given[part].first < given[part].end)
        ops_.send(to, tag_of(round, part, false), is_first ? in_input(given[part]) : in_sums(given[part]));
    for (std::size_t part = 0; part < 2; ++part) {
      if (taken[part].first == taken[part].end) continue;
      const bool ends_here = is_last && !spreads_ && !in_place_;
      const stretch target = ends_here ? own_output() : in_sums(taken[part]);
      const stretch landing = ops_.scratch(target.count);
      ops_.recv(from, tag_of(round, part, false), landing);
      ops_.reduce(landing, is_first ? in_input(taken[part]) : in_sums(taken[part]), target);
    }
    if (is_first && 2 * skip != size_ && !(spreads_ && in_place_)) {
      const block_range rest = parts_of(skip - 1, skip)[0];
      ops_.copy(in_input(rest), in_sums(rest));
    }
  }

  void spread(std::size_t round) {
    const auto [skip, end] = rounds_[round];
    const rank to = ring_before(self_, skip, size_), from = ring_after(self_, skip, size_);
    const auto given = parts_of(0, end - skip), taken = parts_of(skip, end);
    for (std::size_t part = 0; part < 2; ++part)
      if (given[part].first < given[part].end) ops_.send(to, tag_of(round, part, true), in_output(given[part]));
    for (std::size_t part = 0; part < 2; ++part)
      if (taken[part].first < taken[part].end) ops_.recv(from, tag_of(round, part, true), in_output(taken[part]));
  }

  const rank self_;
  const rank size_;
  const bool in_place_;
  const bool spreads_;
  const std::vector<circulant_round> rounds_;
  const std::vector<std::uint64_t> begins_;  ///< of blocks, and the end
  const buffer_id input_;
  const buffer_id output_;
  ordered_ops ops_;
  std::uint32_t input_cell_ = 0;
  std::uint32_t output_cell_ = 0;
  stretch sums_{};
};

// --- costs -------------------------------------------------------------------------------------------------

/// The longest chain of messages: for every block, counted from the own one, how many have led to what a rank holds of
/// it. All ranks are alike.
std::uint64_t hops_of(rank size, bool spreads) {
  std::vector<std::uint64_t> chain(static_cast<std::size_t>(size), 0);
  const auto longest = [&](rank first, rank end) { return *std::max_element(&chain[0] + first, &chain[0] + end); };
  const std::vector<circulant_round> rounds = rounds_of(size);
  for (const auto [skip, end] : rounds) {
    const std::uint64_t sum = std::max(longest(skip, end) + 1, longest(0, end - skip));
    std::fill_n(chain.begin(), end - skip, sum);
  }
  for (std::size_t i = rounds.size(); spreads && i-- > 0;) {
    const auto [skip, end] = rounds[i];
    std::fill_n(chain.begin() + skip, end - skip, longest(0, end - skip) + 1);
  }
  return longest(0, size);
}

/// Of n blocks that a message has, n - 1 places to begin make it pass the last one.
cost cost_of_circulant(rank size, const shape& data, std::uint64_t total, std::uint64_t phases) {
  cost all{.bytes = saturating_product(phases * (wide(size) - 1), bytes_of(total, data)),
           .hops = hops_of(size, phases == 2)};
  for (const circulant_round& it : rounds_of(size)) all.messages += phases * (wide(size) + wide(it.end - it.skip) - 1);
  return all;
}

cost cost_of_allreduce(rank size, const shape& data, const activation&) {
  return cost_of_circulant(size, data, data.count, 2);
}

cost cost_of_reduce_scatter(rank size, const shape& data, const activation&) {
  return cost_of_circulant(size, data, block_offsets(data, size).back(), 1);
}

constexpr constraints k_needs{
    .needs_commutative = true,
    .needs_everybody = true,
    .summary = "long vectors, any P: ceil(log2 P) rounds a phase and no byte more than needed, without a fold"};

}  // namespace

constinit const algorithm k_allreduce_circulant{.of = &k_allreduce,
                                                .name = "circulant",
                                                .add = add_allreduce_circulant,
                                                .needs = k_needs,
                                                .cost_of = cost_of_allreduce};

constinit const algorithm k_reduce_scatter_circulant{.of = &k_reduce_scatter,
                                                     .name = "circulant",
                                                     .add = add_reduce_scatter_circulant,
                                                     .needs = k_needs,
                                                     .cost_of = cost_of_reduce_scatter};

constinit const algorithm k_reduce_scatter_block_circulant{.of = &k_reduce_scatter_block,
                                                           .name = "circulant",
                                                           .add = add_reduce_scatter_circulant,
                                                           .needs = k_needs,
                                                           .cost_of = cost_of_reduce_scatter};

fragment add_allreduce_circulant(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return circulant(to, k_allreduce, data, input, output, entry).write();
}

fragment add_reduce_scatter_circulant(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return circulant(to, k_reduce_scatter, data, input, output, entry).write();
}

}  // namespace lsched
