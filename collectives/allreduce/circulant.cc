// Reductions on a circulant graph (Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", 2024).
//
//   skips     P, then each half of the one before, rounded up, down to 1; P = 7: 7 4 2 1
//   combine   a rank holds sums of blocks self, self + 1, … around the ring; with skip s after t it sends those from s
//             on to rank self + s, and combines as many that come from rank self - s with its first
//   spread    allreduce only: the same rounds backwards with finished blocks
//
// ceil(log2 P) rounds a phase, in which each rank sends and receives P-1 blocks in all: as few rounds and as few bytes
// as can be for every P, without a fold. Blocks whose numbers pass P begin again at 0, so that a message comes in two
// parts at t - s - 1 of the ranks. Operands are not in rank order: the kernel must commute. Every block is combined by
// one expression: the same bits on all ranks.
#include <algorithm>
#include <vector>

#include "collectives/allreduce/allreduce.h"
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

/// `spreads`: of an allreduce.
template <bool spreads>
class circulant : ordered_part {
 public:
  circulant(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : ordered_part(to, data, input, output, entry) {
    set_blocks(spreads ? block_begins(data, wide(size())) : block_offsets(data, size()));
  }

  // A payload is held for a reduction that waits for earlier rounds, and in place for their sends.
  fragment write() {
    if (size() == 1) {
      copy_alone(in_input({0, 1}), in_output({0, 1}));
      return finish(true);
    }
    sums_ = spreads ? in_output({0, size()}) : scratch(begins().back(), wide(size()));
    for (std::size_t i = 0; i < rounds_.size(); ++i) combine(i);
    if (!spreads && in_place()) copy(in_sums({self(), self() + 1}), own_output());
    for (std::size_t i = rounds_.size(); spreads && i-- > 0;) spread(i);
    return finish(true);
  }

 private:
  /// Blocks [first, end), counted around the ring from the own one: one part or two.
  std::vector<block_range> parts_of(rank first, rank end) const {
    const rank begin = after(first), head = std::min(end - first, size() - begin);
    std::vector<block_range> parts{{begin, begin + head}};
    if (head < end - first) parts.push_back({0, end - first - head});
    return parts;
  }

  stretch in_sums(block_range blocks) const { return blocks_in(sums_.at.buffer(), sums_.cell, blocks); }

  // --- rounds ----------------------------------------------------------------------------------------------

  static std::uint32_t tag_of(std::size_t round, std::size_t part, bool is_spread) {
    return static_cast<std::uint32_t>(4 * round + 2 * part + (is_spread ? 1 : 0));
  }

  // In the first round, what is sent and combined is still in the input. All blocks below its skip but one are
  // combined: that one follows by a copy if P is odd.
  void combine(std::size_t round) {
    const auto [skip, end] = rounds_[round];
    const bool is_first = round == 0, is_last = round + 1 == rounds_.size();
    const auto given = parts_of(skip, end), taken = parts_of(0, end - skip);
    for (std::size_t part = 0; part < given.size(); ++part)
      send(after(skip), tag_of(round, part, false), is_first ? in_input(given[part]) : in_sums(given[part]));
    for (std::size_t part = 0; part < taken.size(); ++part) {
      const bool ends_here = is_last && !spreads && !in_place();
      const stretch target = ends_here ? own_output() : in_sums(taken[part]);
      const stretch landing = receive(before(skip), tag_of(round, part, false), target.count);
      reduce(landing, is_first ? in_input(taken[part]) : in_sums(taken[part]), target);
    }
    if (is_first && 2 * skip != size() && !(spreads && in_place())) {
      const block_range rest = parts_of(skip - 1, skip)[0];
      copy(in_input(rest), in_sums(rest));
    }
  }

  void spread(std::size_t round) {
    const auto [skip, end] = rounds_[round];
    const auto given = parts_of(0, end - skip), taken = parts_of(skip, end);
    for (std::size_t part = 0; part < given.size(); ++part)
      send(before(skip), tag_of(round, part, true), in_output(given[part]));
    for (std::size_t part = 0; part < taken.size(); ++part)
      recv(after(skip), tag_of(round, part, true), in_output(taken[part]));
  }

  const std::vector<circulant_round> rounds_ = rounds_of(size());
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
template <bool spreads>
cost cost_of_circulant(rank size, const shape& data) {
  const std::uint64_t phases = spreads ? 2 : 1, total = spreads ? data.count : block_offsets(data, size).back();
  cost all{.bytes = saturating_product(phases * (wide(size) - 1), bytes_of(total, data)),
           .hops = hops_of(size, spreads)};
  for (const circulant_round& one : rounds_of(size))
    all.messages += phases * (wide(size) + wide(one.end - one.skip) - 1);
  return all;
}

template <bool spreads>
constexpr algorithm circulant_of(const collective& of) {
  return {.of = &of,
          .name = "circulant",
          .add = add_by<circulant<spreads>>,
          .needs = {.needs_commutative = true,
                    .needs_everybody = true,
                    .summary = "long vectors, any P: ceil(log2 P) rounds a phase and no byte more than needed, without "
                               "a fold"},
          .cost_of = cost_of_circulant<spreads>};
}

}  // namespace

constinit const algorithm k_allreduce_circulant = circulant_of<true>(k_allreduce);
constinit const algorithm k_reduce_scatter_circulant = circulant_of<false>(k_reduce_scatter);
constinit const algorithm k_reduce_scatter_block_circulant = circulant_of<false>(k_reduce_scatter_block);

}  // namespace lsched
