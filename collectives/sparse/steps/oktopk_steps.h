// The computations of one rank in Ok-Topk between messages. There is a member function for each step. The schedule
// calls the steps through call().
//
//     select ─► [count_positions ═► set_boundaries] ─► count_drift ═► follow_drift ─► split ═► fold
//            ─► [count_magnitudes ═► …] ═► tally ═► plan ─► cut ═► settle
//
//     ═► numbers or lists are sent between ranks
//
// The paper is Li and Hoefler, Near-Optimal Sparse Allreduce for Distributed Deep Learning, PPoPP 2022. Three points
// differ from the paper. The threshold is exact in every round. The boundaries of regions are quantiles of the items of
// all ranks. The communication volume is bounded for every input. With selection_rule::reused, thresholds are chosen as
// in the paper.
//
// The steps of a round must be called in that order, by one thread at a time. They do not block and do not allocate.
// Indices of items are positions in the whole vector. Input lists may be in any memory, and are read only during the
// call. Output must be disjoint from input unless stated otherwise.
//
// If a round fails before settle(), the gradient has been added to the residual, and the hint may have changed. The
// rest of the state is unchanged. The next round begins with select() as usual. All ranks must begin a round with equal
// state.boundaries(), so a round must be settled on all ranks or on none.
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

/// The functions that schedules of Ok-Topk call, in the order of a round. Each function executes a step, or copies data
/// between steps.
enum class oktopk_step : std::uint32_t {
  select,           ///< adds the gradient to the residual, and writes the largest elements of the residual as a list
  count_positions,  ///< writes this rank's counters (or quantiles) of the positions of the selected items
  set_boundaries,   ///< sets the boundaries from the sums of these numbers over all ranks; writes no output
  count_drift,      ///< writes the number of selected items in each part of every region
  follow_drift,     ///< adjusts the boundaries by the sums of these numbers over all ranks; writes no output
  split,            ///< divides the selected items into a list for the owner of each region
  add,              ///< sums the lists of all ranks for this rank's region (fold)
  count_sums,       ///< counts this rank's sums by magnitude (count_magnitudes); count_sums + i stands for pass i
  tally = count_sums + 8,  ///< writes this rank's magnitude_tally, from the counters of the last pass
  plan,                    ///< writes the number of items that each owner adds to this rank's share
  shares,                  ///< writes the lengths of the shares of all ranks
  cut,                     ///< divides the sums that this rank keeps: each rank gets a piece
  share,                   ///< joins the pieces that all ranks send for this rank's share of the result
  settle                   ///< converts the shares of all ranks to the update
};

constexpr std::uint32_t number_of(oktopk_step step, unsigned pass = 0) {
  return static_cast<std::uint32_t>(step) + pass;
}

/// Returns the guard (schedule.h) that is true in rounds that recompute the boundaries. These are the rounds 1, 1 +
/// period, …, counted over the lifetime of the state.
constexpr guard looks_of(const sparse_problem& problem) {
  return {.every = problem.period, .phase = static_cast<std::uint32_t>(problem.rounds_before % problem.period)};
}

class oktopk_steps final : public sparse_functions, public round_end {
 public:
  /// The problem must be valid. The state must belong to the same problem and outlive this object. Allocates memory for
  /// about 6 k items (9 k + gathered_room(problem) with reused thresholds), for a dense vector and for a bitmap. In the
  /// vector and the bitmap, only regions that this rank has owned use pages. Throws std::bad_alloc.
  oktopk_steps(const sparse_problem& problem, sparse_state& state);

  /// Adds scale * gradient to the residual (sparse.h). Then returns the k elements of the residual with the largest
  /// magnitudes, as a list that is valid until the next call of select(). In rounds that reuse a threshold, the list
  /// has all elements whose magnitude, rounded to the items' type, is positive and not below the threshold. If there
  /// are more than most_selected(problem) such elements, the list has only the largest. `gradient` must have `count`
  /// elements of the problem's type. If `gradient` is nullptr, nothing is added.
  item_list select(const void* gradient);

  /// Steps of rounds that recompute the boundaries. count_positions writes position_bins(problem) numbers for the
  /// selected items. set_boundaries computes the round's boundaries from the sums of these numbers over all ranks.
  void count_positions(std::span<std::uint64_t> bins) const;
  void set_boundaries(std::span<const std::uint64_t> sums);
  /// Steps of all rounds, unless the rule is boundary_rule::averaged. count_drift writes drift_bins(problem) numbers
  /// for the selected items. follow_drift recomputes the round's boundaries from the sums of these numbers over all
  /// ranks.
  void count_drift(std::span<std::uint64_t> bins);
  void follow_drift(std::span<const std::uint64_t> sums);
  /// Returns the round's boundaries: P+1 positions. settle() stores these positions in the state.
  std::span<const std::uint64_t> boundaries() const { return boundaries_; }

  /// Writes one list for each region to `items`, in region order. Writes the lengths of these P lists to `lengths`.
  /// Returns the total number of items. `items` must have capacity for sent_room(problem) items. `round` must be equal
  /// on all ranks.
  std::uint64_t split(round_no round, std::byte* items, std::span<std::uint64_t> lengths);

  /// Adds the P lists for this rank's region in rank order, and writes the sum to `sums`. Returns the length of the
  /// sum. `sums` must have capacity for min(elements of the region, items of all lists). sum_room(problem) items
  /// suffice.
  std::uint64_t fold(std::span<const item_list> lists, std::byte* sums);

  /// Writes the threshold_bins(type, pass) counters of a pass, 0 <= pass < threshold_passes(problem). `sums` is the
  /// output of fold. `before` must have the counters of the previous pass, summed over all ranks, and must be empty in
  /// pass 0.
  void count_magnitudes(unsigned pass, item_list sums, std::span<const std::uint64_t> before,
                        std::span<std::uint64_t> bins);

  /// Writes this rank's magnitude_tally. It counts the rank's sums above the k-th largest magnitude of all ranks, and
  /// the rank's sums with exactly this magnitude. `last` must have the counters of the last pass, summed over all
  /// ranks. With reused thresholds, the first number is the number of sums to gather, and the second number is 0. In
  /// rounds that search for a threshold, all sums are gathered. In other rounds, only the sums not below the last
  /// threshold are gathered.
  void tally(item_list sums, std::span<const std::uint64_t> last, std::span<std::uint64_t> numbers);

  /// `tallies` must have the tallies of all ranks (2 P numbers, in rank order). Computes the number of items that each
  /// rank keeps, and the destinations of these items. Of the items whose magnitude equals the k-th magnitude, those
  /// with the lowest indices are kept. They belong to the owners with the lowest ranks. Writes P lengths to each
  /// output. `pieces`: number of kept items that this rank sends to each rank. `sources`: for each owner, the number of
  /// items in this rank's share that come from this owner. `shares`: length of each rank's share. `pieces` and
  /// `sources` include the items that stay on this rank.
  void plan(std::span<const std::uint64_t> tallies, std::span<std::uint64_t> pieces, std::span<std::uint64_t> sources,
            std::span<std::uint64_t> shares);
  const balance_plan& planned() const { return plan_; }

  /// Writes the sums that this rank keeps, ascending by index, and returns their number. `kept` then has the pieces for
  /// ranks 0, 1, … one after the other (see plan()). `kept` must have capacity for the pieces, and may be sums.items.
  std::uint64_t cut(item_list sums, std::byte* kept) const;

  /// Returns the result of the round. `gathered` must contain all shares in rank order. The result is usually
  /// `gathered`. In rounds that search for a threshold to reuse, the result has only the k largest items. It is valid
  /// until the next call of result_of().
  item_list result_of(item_list gathered);

  /// Ends the round. `gathered` must contain all shares in rank order. Sent items whose indices are in the result are
  /// removed from the residual. Returns the number of these items. `update` is described at round_end::settle. After a
  /// refused round, the thresholds are not reused, because they may be magnitudes of non-finite values.
  std::uint64_t settle(item_list gathered, void* update);

  status call(std::uint32_t number, round_no round, const function_input& source, const function_input& by,
              const function_output& target) override;
  void rebound() override { forget_update(); }

  // Vectors may be in device memory, except with reused thresholds.
  bool use_devices() const override { return !reuses(); }
  function_memory memory_on_device() const override { return vectors_.memory(state_.loaded_residual()); }
  void use_device(std::byte* device, std::byte* staging) override;
  result<const sparse_job*> prepare(std::uint32_t number, round_no round, const function_input& source,
                                    const function_input& by, const function_output& target) override;

 private:
  bool reuses() const { return problem_.selection == selection_rule::reused; }
  /// Returns the minimum magnitude of the sums that are gathered. Called only with reused thresholds.
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
  region_parts parts_;                     ///< parts of the regions (regions.h)
  std::vector<std::byte> selected_;        ///< workspace of select()
  std::uint64_t selected_count_ = 0;
  std::vector<std::byte> sent_;  ///< copy of the items that split() has written
  std::uint64_t sent_count_ = 0;
  region_sum sum_;
  global_threshold threshold_;
  std::vector<std::uint64_t> kept_;  ///< number of items that each of the P owners keeps
  std::uint64_t ties_ = 0;           ///< number of items with the k-th magnitude that this rank keeps
  balance_plan plan_;
  top_k_hint hint_{};            ///< hint for rounds in which a threshold selects too many items
  bool looks_ = true;            ///< this round searches for thresholds
  reused_thresholds next_{};     ///< thresholds after this round
  std::vector<std::byte> best_;  ///< the result, in rounds that search for thresholds
  // Used if the steps of a round are called as functions:
  std::vector<item_list> lists_;                ///< lists received from all ranks, by rank
  std::vector<std::uint64_t> pieces_, shares_;  ///< lengths from plan()
};

}  // namespace lsched
