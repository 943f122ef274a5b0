// Reductions on a circulant graph (Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", 2024).
//
//   skips     the first skip is P, every next skip is half of the previous skip, rounded up, and the last skip is 1;
//             for P = 7, the skips are 7 4 2 1
//   combine   a rank has partial results of blocks self, self + 1, … (mod P). With skip s after skip t, the rank sends
//             the partial results of blocks self + s … self + t - 1 to rank self + s. The rank combines its partial
//             results of blocks self … self + t - s - 1 with the partial results from rank self - s
//   spread    allreduce only: the same rounds in reverse order, with finished blocks
//
// A phase has ceil(log2 P) rounds, in which each rank sends and receives P-1 blocks in total. Both numbers are minimal,
// for every P. Block indices wrap around at P, so in each round, t - s - 1 of the ranks send their message in two
// parts. Operands are not in rank order, so the kernel must be commutative. Every block is combined by one expression,
// so all ranks get the same result, bit for bit.
#include <algorithm>
#include <vector>

#include "collectives/allreduce/allreduce.h"
#include "collectives/patterns/blocks.h"
#include "collectives/patterns/ordered_ops.h"

namespace lsched {
namespace {

/// A round in which a rank sends blocks self + skip … self + end - 1 to rank self + skip (all modulo P).
struct circulant_round {
  rank skip = 0;
  rank end = 0;
};

std::vector<circulant_round> rounds_of(rank size) {
  std::vector<circulant_round> rounds;
  for (rank end = size; end > 1; end = rounds.back().skip) rounds.push_back({end - end / 2, end});
  return rounds;
}

/// `spreads` is true for an allreduce and false for a reduce_scatter.
template <bool spreads>
class circulant : ordered_part {
 public:
  circulant(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : ordered_part(to, data, input, output, entry) {
    set_blocks(spreads ? block_begins(data, wide(size())) : block_offsets(data, size()));
  }

  // The fragment satisfies the conditions of builder::declare_holding: the reduction that reads a payload waits only
  // for earlier rounds and, in place, for the sends of these rounds.
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
  /// Returns blocks self + first … self + end - 1 (modulo P), in one or two parts.
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

  // The first round reads blocks from the input. If P is odd, block self + skip - 1 is copied instead of combined.
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

/// Returns the length of the longest chain of messages. On every rank, chain[i] is the length of the longest chain that
/// leads to the value of block self + i.
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

/// On n - 1 of the ranks, a message of n blocks has two parts, because block indices wrap around.
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
