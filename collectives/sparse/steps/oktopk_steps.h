// The computations of one rank in Ok-Topk between messages: a method for each step, and the functions (call) that the
// schedule calls.
//
//     select ─► [count_positions ═► set_boundaries] ─► count_drift ═► follow_drift ─► split ═► fold
//            ─► [count_magnitudes ═► …] ═► tally ═► plan ─► cut ═► settle
//
//     ═► numbers or lists travel between ranks
//
// (Li and Hoefler, Near-Optimal Sparse Allreduce for Distributed Deep Learning, PPoPP 2022. Unlike in the paper, the
// threshold is exact in every round, the boundaries of regions are quantiles of the items of all ranks, and the volume
// is bounded for every input. With selection_rule::reused, thresholds are those of the paper.)
//
// The steps of a round must be called in that order, by one thread at a time. They do not block and do not allocate.
// All memory is the caller's, or is allocated by the constructor. Lists hold positions in the whole vector. Input lists
// may be anywhere, and are only read during the call. Output is disjoint from input unless stated otherwise.
//
// If a round fails before settle, the residual holds residual plus gradient. The rest of the state is unchanged, except
// the hint. The next round begins with select as usual. All ranks must begin a round with equal state.boundaries().
// Therefore a round must be settled on all ranks or on none.
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
/// the copies between steps.
enum class oktopk_step : std::uint32_t {
  select,                  ///< gradient → the largest elements of the residual, one list
  count_positions,         ///< selected → counters, or boundaries, for a sum over all ranks
  set_boundaries,          ///< sums of these numbers over all ranks → an unused number
  count_drift,             ///< selected → counters of the parts of regions, for a sum over all ranks
  follow_drift,            ///< sums of these counters over all ranks → an unused number
  split,                   ///< selected → a list for the owner of each region
  add,                     ///< lists of all ranks, of this rank's region → their sums
  count_sums,              ///< sums, and all ranks' counters of the previous pass → counters; count_sums + i: pass i
  tally = count_sums + 8,  ///< sums, and counters of the last pass → magnitude_tally of this rank
  plan,                    ///< the tallies of all ranks → number of items from each rank
  shares,                  ///< the tallies of all ranks → lengths of all shares
  cut,                     ///< sums, and the tallies of all ranks → a piece for each rank
  share,                   ///< pieces from all ranks → this rank's share of the result
  settle                   ///< shares → the update
};

constexpr std::uint32_t number_of(oktopk_step step, unsigned pass = 0) {
  return static_cast<std::uint32_t>(step) + pass;
}

/// Returns the guard (schedule.h) that holds in rounds that recompute the boundaries. These are rounds 1, 1 + period,
/// …, counted over the lifetime of the state.
constexpr guard looks_of(const sparse_problem& problem) {
  return {.every = problem.period, .phase = static_cast<std::uint32_t>(problem.rounds_before % problem.period)};
}

class oktopk_steps final : public sparse_functions, public round_end {
 public:
  /// The problem must be valid. The state must belong to the same problem and outlive the object. Needs memory for
  /// about 6 k items, and for the parts of a vector and of a bitmap that the rank's regions ever cover. With reused
  /// thresholds, needs memory for 9 k items and gathered_room(problem) items. Throws std::bad_alloc.
  oktopk_steps(const sparse_problem& problem, sparse_state& state);

  /// Adds scale * gradient to the residual (sparse.h). Then returns the k largest elements of the residual, as a list
  /// that is valid until the next select. In rounds that reuse a threshold, the list has all elements whose magnitude,
  /// rounded to the items' type, is neither zero nor below the threshold. If there are more than most_selected(problem)
  /// such elements, only the largest are in the list. `gradient` has `count` elements of the problem's type. If
  /// `gradient` is nullptr, nothing is added.
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
  /// of all items. `items` must have capacity for sent_room(problem) items. `round` must be equal on all ranks.
  std::uint64_t split(round_no round, std::byte* items, std::span<std::uint64_t> lengths);

  /// Writes the sum of the lists of ranks 0, 1, … for this rank's region, added in this order. Returns its length.
  /// `lists` has P lists. `sums` must have capacity for as many items as the region has elements, or for all items of
  /// the lists if these are fewer. sum_room(problem) items suffice.
  std::uint64_t fold(std::span<const item_list> lists, std::byte* sums);

  /// Writes the threshold_bins(type, pass) numbers of a pass, 0 <= pass < threshold_passes(problem). `sums` is the
  /// output of fold. `before` has the counters of the previous pass, summed over all ranks. `before` is empty in pass
  /// 0.
  void count_magnitudes(unsigned pass, item_list sums, std::span<const std::uint64_t> before,
                        std::span<std::uint64_t> bins);

  /// Writes 2 numbers, this rank's magnitude_tally: how many sums are above the k-th largest sum of all ranks, and how
  /// many are equal to that sum. `last` has the counters of the last pass, summed over all ranks. With reused
  /// thresholds, writes the number of sums to gather, and 0. In rounds that look for a threshold, all sums are
  /// gathered. In other rounds, only sums that are not below the last threshold are gathered.
  void tally(item_list sums, std::span<const std::uint64_t> last, std::span<std::uint64_t> numbers);

  /// Computes the items that each rank keeps and their destinations, from the tallies of all ranks in rank order, 2 P
  /// numbers. Of the items equal to the k-th, those with the lowest indices are kept. These items are on the lowest
  /// owners, because regions ascend. Writes P lengths to each output. `pieces` gets the lengths of the pieces of this
  /// rank's kept list, for ranks 0, 1, …. `sources` gets the lengths of the pieces of this rank's share, from owners 0,
  /// 1, …. `shares` gets the lengths of the shares of all ranks. `pieces` and `sources` include the items that stay on
  /// this rank.
  void plan(std::span<const std::uint64_t> tallies, std::span<std::uint64_t> pieces, std::span<std::uint64_t> sources,
            std::span<std::uint64_t> shares);
  const balance_plan& planned() const { return plan_; }

  /// Writes the sums that this rank keeps, ascending by index, and returns their number. The written sums are all
  /// pieces of the plan, one after the other. `kept` must have capacity for these sums, and may be sums.items.
  std::uint64_t cut(item_list sums, std::byte* kept) const;

  /// Returns the result. `gathered` has all shares, one after the other. The result is `gathered`, except in rounds
  /// that look for a threshold to reuse. In those rounds the result has only the k largest items, in memory that is
  /// valid until the next call of result_of.
  item_list result_of(item_list gathered);

  /// Ends the round. `gathered` has all shares, one after the other. A sent item leaves the residual if its index is in
  /// the result. Returns the number of these items. `update` is described at round_end::settle. After a refused round,
  /// the thresholds are not reused, because they may be magnitudes of non-finite values.
  std::uint64_t settle(item_list gathered, void* update);

  status call(std::uint32_t number, round_no round, const function_input& source, const function_input& by,
              const function_output& target) override;
  void rebound() override { forget_update(); }

  // These functions serve vectors in device memory. Reused thresholds need vectors in host memory.
  bool use_devices() const override { return !reuses(); }
  function_memory memory_on_device() const override { return vectors_.memory(state_.loaded_residual()); }
  void use_device(std::byte* device, std::byte* staging) override;
  result<const sparse_job*> prepare(std::uint32_t number, round_no round, const function_input& source,
                                    const function_input& by, const function_output& target) override;

 private:
  bool reuses() const { return problem_.selection == selection_rule::reused; }
  /// With reused thresholds, returns the minimum magnitude of the sums that are gathered.
  std::uint64_t least_gathered() const;
  item_list begin_round(std::uint64_t selected);
  item_list take_selected();
  void end_round();
  std::uint64_t select_largest(const accumulation& from);
  std::uint64_t select_by_threshold(const accumulation& from);
  magnitude_range range_from(std::uint64_t threshold) const;

  sparse_problem problem_;
  sparse_state& state_;
  std::vector<std::uint64_t> boundaries_;  ///< P+1 positions
  region_parts parts_;                     ///< parts of the regions between these boundaries
  std::vector<std::byte> selected_;        ///< workspace of select, with capacity for more than k items
  std::uint64_t selected_count_ = 0;
  std::vector<std::byte> sent_;  ///< copy of the items that split has written
  std::uint64_t sent_count_ = 0;
  region_sum sum_;
  global_threshold threshold_;
  std::vector<std::uint64_t> kept_;  ///< number of items that each of the P owners keeps
  std::uint64_t ties_ = 0;           ///< number of items equal to the k-th that this rank keeps
  balance_plan plan_;
  top_k_hint hint_{};            ///< hint for rounds in which a threshold selects too many items
  bool looks_ = true;            ///< this round looks for thresholds
  reused_thresholds next_{};     ///< thresholds after this round
  std::vector<std::byte> best_;  ///< the result, in rounds that look for thresholds
  // Used if the steps of a round are called as functions:
  std::vector<item_list> lists_;                ///< lists from all ranks, by rank
  std::vector<std::uint64_t> pieces_, shares_;  ///< lengths from plan()
};

}  // namespace lsched
