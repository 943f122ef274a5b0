// The computations of one rank in Ok-Topk between messages: a method for each step, and the functions (call) that the
// schedule calls.
//
//     select ─► [count_positions ═► set_boundaries] ─► count_drift ═► follow_drift ─► split ═► fold
//            ─► [count_magnitudes ═► …] ═► tally ═► plan ─► cut ═► settle
//
//     ═► numbers or lists travel between ranks
//
// (Li and Hoefler, Near-Optimal Sparse Allreduce for Distributed Deep Learning, PPoPP 2022. Unlike there, the threshold
// is exact in every round, regions are pooled quantiles, and the volume is bounded for every input. With
// selection_rule::reused, thresholds are those of the paper.)
//
// The steps of a round must be called in that order, by one thread at a time. They do not block and do not allocate.
// All memory is the caller's, or is allocated by the constructor. Lists hold positions in the whole vector. Input lists
// may be anywhere, and are only read during the call. Output is disjoint from input unless stated otherwise.
//
// If a round fails before settle, the residual holds residual plus gradient. The rest of the state is unchanged, except
// the hint. The next round begins with select as usual. All ranks of a round must have the same state.boundaries(), so
// that either all of them settle a round, or none does.
#pragma once

#include <span>
#include <vector>

#include "collectives/sparse/steps/balance.h"
#include "collectives/sparse/steps/lists.h"
#include "collectives/sparse/steps/regions.h"
#include "collectives/sparse/steps/sparse_functions.h"
#include "collectives/sparse/steps/threshold.h"
#include "libsched/schedule/round.h"

namespace lsched {

/// The functions that schedules of Ok-Topk call, in the order of a round, as input → output. They are the steps, and
/// the copies in between.
enum class oktopk_step : std::uint32_t {
  select,                  ///< gradient → the largest elements of the residual, one list
  count_positions,         ///< selected → counters, or boundaries, for a sum over all ranks
  set_boundaries,          ///< these sums → an unused number
  count_drift,             ///< selected → counters of the parts of regions, for a sum over all ranks
  follow_drift,            ///< these sums → an unused number
  split,                   ///< selected → a list for the owner of each region
  add,                     ///< lists of all ranks, of this rank's region → their sums
  count_sums,              ///< sums, and all ranks' counters of the previous pass → counters; + i: pass i
  tally = count_sums + 8,  ///< sums, and counters of the last pass → items above the threshold, and equal to it
  plan,                    ///< the tallies of all ranks → number of items from each rank
  shares,                  ///< the tallies of all ranks → lengths of all shares
  cut,                     ///< sums, and the tallies of all ranks → a piece for each rank
  share,                   ///< pieces from all ranks → this rank's share of the result
  settle                   ///< shares → the update
};

constexpr std::uint32_t number_of(oktopk_step step, unsigned pass = 0) {
  return static_cast<std::uint32_t>(step) + pass;
}

/// Returns the guard of rounds that recompute the boundaries: 1, 1 + period, … in the rounds of the state.
constexpr guard looks_of(const sparse_problem& problem) {
  return {.every = problem.period, .phase = static_cast<std::uint32_t>(problem.rounds_before % problem.period)};
}

class oktopk_steps final : public sparse_functions, public round_end {
 public:
  /// The problem must be valid. The state must belong to the same problem and outlive the object. Memory: about 6 k
  /// items, and as much of a vector and a bitmap as the rank's regions ever cover. With reused thresholds: 9 k items
  /// and gathered_room. Throws std::bad_alloc.
  oktopk_steps(const sparse_problem& problem, sparse_state& state);

  /// residual += scale * gradient (sparse.h). Then returns its first k elements by magnitude, as a list that is valid
  /// until the next select. In rounds that reuse a threshold, the list has all elements whose magnitude, rounded to the
  /// items' type, is neither zero nor below the threshold. If these exceed most_selected(problem), only the first of
  /// the order by magnitude are in the list. `gradient` has `count` elements of the problem's type. If it is nullptr,
  /// nothing is added.
  item_list select(const void* gradient);

  /// Steps of rounds that recompute the boundaries. count_positions writes this rank's position_bins(problem) numbers
  /// for the selected items. set_boundaries computes the round's boundaries from the sums over all ranks.
  void count_positions(std::span<std::uint64_t> bins) const;
  void set_boundaries(std::span<const std::uint64_t> sums);
  /// Steps of all rounds, unless the rule is `averaged`. count_drift writes this rank's drift_bins(problem) numbers.
  /// follow_drift moves the round's boundaries by the sums over all ranks.
  void count_drift(std::span<std::uint64_t> bins);
  void follow_drift(std::span<const std::uint64_t> sums);
  /// Returns the round's boundaries: P+1 positions. settle stores them in the state.
  std::span<const std::uint64_t> boundaries() const { return boundaries_; }

  /// Writes the lists for the owners of regions 0 … P-1, one after the other, and their P lengths. Returns the number
  /// of all items. `items` must have room for sent_room(problem). `round` must be equal on all ranks.
  std::uint64_t split(round_no round, std::byte* items, std::span<std::uint64_t> lengths);

  /// Writes the sum of the lists of ranks 0, 1, … for this rank's region, added in this order. Returns its length.
  /// There are P lists. `sums` must have room for the size of the region or for all items of the lists, if that is
  /// less. sum_room(problem) suffices.
  std::uint64_t fold(std::span<const item_list> lists, std::byte* sums);

  /// Writes the threshold_bins(type, pass) numbers of a pass, 0 <= pass < threshold_passes(problem). `sums` is the
  /// output of fold. `before` has the sums of the previous pass over all ranks. It is empty in pass 0.
  void count_magnitudes(unsigned pass, item_list sums, std::span<const std::uint64_t> before,
                        std::span<std::uint64_t> bins);

  /// Writes 2 numbers, this rank's magnitude_tally: the sums above the k-th of all ranks, and the sums equal to it.
  /// `last` has the sums of the last pass over all ranks. With reused thresholds, it writes the number of sums to
  /// gather, and 0. These are all sums in rounds that look for a threshold, and else the sums that are not below the
  /// last threshold.
  void tally(item_list sums, std::span<const std::uint64_t> last, std::span<std::uint64_t> numbers);

  /// Computes the items that each rank keeps and their destinations, from the tallies of all ranks in rank order, 2 P
  /// numbers. Of items equal to the k-th, the first are kept, which are those of the first owners because regions
  /// ascend. Writes P lengths each. `pieces` are those of this rank's kept list, for ranks 0, 1, …. `sources` are those
  /// of its share, from owners 0, 1, …. `shares` are the shares of all ranks. `pieces` and `sources` include the items
  /// that stay on this rank.
  void plan(std::span<const std::uint64_t> tallies, std::span<std::uint64_t> pieces, std::span<std::uint64_t> sources,
            std::span<std::uint64_t> shares);
  const balance_plan& planned() const { return plan_; }

  /// Writes the sums that this rank keeps, ascending by index, and returns their number. They are all pieces of the
  /// plan, one after the other. `kept` must have room for them, and may be sums.items.
  std::uint64_t cut(item_list sums, std::byte* kept) const;

  /// Returns the result. `gathered` has all shares, one after the other. The result is all of them, except in rounds
  /// that look for a threshold to reuse. In those rounds it is the first k in the order by magnitude, in memory that is
  /// valid until the next call.
  item_list result_of(item_list gathered);

  /// Ends the round. `gathered` has all shares, one after the other. Removes sent items that are in the result from the
  /// residual, and returns their number. `update` as in round_end. After a refused round, the thresholds are not
  /// reused, because they may be those of non-finite values.
  std::uint64_t settle(item_list gathered, void* update);

  status call(std::uint32_t number, round_no round, const function_input& source, const function_input& by,
              const function_output& target) override;
  void rebound() override { forget_update(); }

  // For vectors in device memory. Reused thresholds need vectors in host memory.
  bool use_devices() const override { return !reuses(); }
  function_memory memory_on_device() const override { return vectors_.memory(state_.loaded_residual()); }
  void use_device(std::byte* device, std::byte* staging) override;
  result<const sparse_job*> prepare(std::uint32_t number, round_no round, const function_input& source,
                                    const function_input& by, const function_output& target) override;

 private:
  bool reuses() const { return problem_.selection == selection_rule::reused; }
  /// Returns the least magnitude of the sums to gather, with reused thresholds.
  std::uint64_t least_gathered() const;
  item_list begin_round(std::uint64_t selected);
  item_list take_selected();
  void end_round();
  std::uint64_t select_largest(const accumulation& from);
  std::uint64_t select_by_threshold(const accumulation& from);
  magnitude_range range_from(std::uint64_t threshold) const;

  sparse_problem problem_;
  sparse_state& state_;
  std::vector<std::uint64_t> boundaries_;  ///< P+1
  region_parts parts_;                     ///< parts of the regions between these boundaries
  std::vector<std::byte> selected_;        ///< workspace of select, with room for more than k items
  std::uint64_t selected_count_ = 0;
  std::vector<std::byte> sent_;  ///< copy of the items that split has written
  std::uint64_t sent_count_ = 0;
  region_sum sum_;
  global_threshold threshold_;
  std::vector<std::uint64_t> kept_;  ///< P: number of items that each owner keeps
  std::uint64_t ties_ = 0;           ///< number of items equal to the k-th that this rank keeps
  balance_plan plan_;
  top_k_hint hint_{};            ///< for rounds in which a threshold selects too many items
  bool looks_ = true;            ///< this round looks for thresholds
  reused_thresholds next_{};     ///< thresholds after this round
  std::vector<std::byte> best_;  ///< the result, in rounds that look for thresholds
  // Used if the steps of a round are called as functions:
  std::vector<item_list> lists_;                ///< by rank
  std::vector<std::uint64_t> pieces_, shares_;  ///< lengths
};

}  // namespace lsched
