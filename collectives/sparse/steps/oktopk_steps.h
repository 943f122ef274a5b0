// One rank's side of Ok-Topk: what it computes between messages, a method for each step; and the functions (call) that
// its schedule calls.
//
//     select ─► [count_positions ═► set_boundaries] ─► count_drift ═► follow_drift ─► split ═► fold
//            ─► [count_magnitudes ═► …] ═► tally ═► plan ─► cut ═► settle
//
//     ═► something travels, of which others know
//
// (Li and Hoefler, Near-Optimal Sparse Allreduce for Distributed Deep Learning, PPoPP 2022. Other than there, the
// threshold is exact in every round, regions are made by pooled quantiles, and the volume is bounded for every input.
// With selection_rule::reused thresholds are the paper's.)
//
// The steps of a round are called in that order, by one thread at a time. They do not block, and allocate nothing: all
// memory is the object's, taken when it is made, or the caller's. Lists hold positions in the whole vector. Lists that
// steps read may lie anywhere; they are read during the call only. What steps write is disjoint from what they read,
// unless something else is said.
//
// A round that gets no further than to some step before settle leaves the residual plus the gradient in the residual,
// and everything else of the state as it was, but for the hint: the next round begins with select like any other. All
// ranks of a round have the same state.boundaries(), so either all of them settle a round, or none.
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

/// The functions that schedules of Ok-Topk call, in the order in which a round calls them: the steps, and the copies in
/// between.
enum class oktopk_step : std::uint32_t {
  select,                  ///< gradient → the largest elements of the residual, one list
  count_positions,         ///< selected → counters, or boundaries, to be added up over all ranks
  set_boundaries,          ///< these sums → a number that nobody reads
  count_drift,             ///< selected → counters of regions' parts, to be added up over all ranks
  follow_drift,            ///< these sums → a number that nobody reads
  split,                   ///< selected → a list for the owner of each region
  add,                     ///< lists of all ranks, of this rank's region → their sums
  count_sums,              ///< sums, by all ranks' counters of the pass before → counters; + i: pass i
  tally = count_sums + 8,  ///< by all counters of the last pass → how many are above the threshold, and at it
  plan,                    ///< this rank's tally, by those of all ranks → how many items come from each
  shares,                  ///< tallies of all ranks → how long all shares are
  cut,                     ///< sums, by tallies of all ranks → a piece for each rank
  share,                   ///< pieces from all ranks → this rank's share of the result
  settle                   ///< shares → the update
};

constexpr std::uint32_t number_of(oktopk_step step, unsigned pass = 0) {
  return static_cast<std::uint32_t>(step) + pass;
}

/// The rounds that begin with a look at the boundaries: 1, 1 + period, … of those of the state.
constexpr guard looks_of(const sparse_problem& problem) {
  return {.every = problem.period, .phase = static_cast<std::uint32_t>(problem.rounds_before % problem.period)};
}

class oktopk_steps final : public sparse_functions, public round_end {
 public:
  /// The problem is valid. The state is of the same problem, and outlives the object. Memory: about 6 k items, and of a
  /// vector and a bitmap as much as the regions take that the rank ever has; of reused thresholds 9 k items and
  /// gathered_room. Throws std::bad_alloc.
  oktopk_steps(const sparse_problem& problem, sparse_state& state);

  /// residual += scale * gradient (sparse.h), then the first k elements of it by magnitude, as a list that remains
  /// until the next select; or in rounds that reuse a threshold, all whose magnitude, rounded to the items' type, is
  /// not below it, and none that is zero: most_selected(problem) at most, of more the first of the order by magnitude.
  /// gradient: `count` elements of the problem's type, or nullptr: nothing is added.
  item_list select(const void* gradient);

  /// In rounds that look at the boundaries: writes this rank's position_bins(problem) numbers of what is selected; then
  /// takes all ranks' sums of these, and makes the round's boundaries of them.
  void count_positions(std::span<std::uint64_t> bins) const;
  void set_boundaries(std::span<const std::uint64_t> sums);
  /// In all rounds, unless the rule is `averaged`: writes this rank's drift_bins(problem) numbers; then takes all
  /// ranks' sums of these, and moves the round's boundaries by them.
  void count_drift(std::span<std::uint64_t> bins);
  void follow_drift(std::span<const std::uint64_t> sums);
  /// The round's: P+1 positions. The state has them when the round is settled.
  std::span<const std::uint64_t> boundaries() const { return boundaries_; }

  /// Writes the lists for the owners of regions 0 … P-1, one behind the other, and their P lengths; answers how many
  /// items they are. items: room for sent_room(problem). All ranks call the round by the same number.
  std::uint64_t split(round_no round, std::byte* items, std::span<std::uint64_t> lengths);

  /// Writes the sum of the lists of ranks 0, 1, … for this rank's region, added in this order; answers its length.
  /// lists: P. sums: room for the region's size, or all their lengths, whichever is less; sum_room(problem) will do.
  std::uint64_t fold(std::span<const item_list> lists, std::byte* sums);

  /// Writes the threshold_bins(type, pass) numbers of a pass. Passes are 0 … threshold_passes(problem) - 1. sums: what
  /// fold gave. before: all ranks' sums of the numbers of the pass before; empty in pass 0.
  void count_magnitudes(unsigned pass, item_list sums, std::span<const std::uint64_t> before,
                        std::span<std::uint64_t> bins);

  /// Writes 2 numbers, this rank's magnitude_tally: how many of the sums are above the k-th of all ranks', and how many
  /// are equal to it. last: all ranks' sums of the last pass's numbers. Of reused thresholds, how many are to be
  /// gathered, and 0: all in rounds that look for a threshold, else those that are not below the last one.
  void tally(item_list sums, std::span<const std::uint64_t> last, std::span<std::uint64_t> numbers);

  /// Works out who keeps what, and sends it where, of all ranks' tallies in rank order: 2 P numbers. Of items equal to
  /// the k-th the first are kept; regions ascend, so these are the first owners'. Writes P lengths each: of the pieces
  /// that this rank's kept list is cut into, for ranks 0, 1, …; of the pieces by owners 0, 1, … that its share is made
  /// of; of all ranks' shares. What it sends to itself is among the first two.
  void plan(std::span<const std::uint64_t> tallies, std::span<std::uint64_t> pieces, std::span<std::uint64_t> sources,
            std::span<std::uint64_t> shares);
  const balance_plan& planned() const { return plan_; }

  /// Writes what this rank keeps of the sums, by index, and answers how many items it is: all that the plan's pieces
  /// are, one behind the other. kept: room for that; may be sums.items.
  std::uint64_t cut(item_list sums, std::byte* kept) const;

  /// What of all shares, one behind the other, is the result: all of it, but in rounds that look for a threshold to be
  /// reused; then the first k of the order by magnitude, in memory that is good until the next call.
  item_list result_of(item_list gathered);

  /// The round is over. gathered: all shares, one behind the other. What was sent, and is in the result, leaves the
  /// residual; the answer is how many items that was. update: as round_end says. Of a round that is refused the
  /// thresholds, which may be those of what is not finite, are not reused.
  std::uint64_t settle(item_list gathered, void* update);

  status call(std::uint32_t number, round_no round, const function_input& source, const function_input& by,
              const function_output& target) override;
  void rebound() override { forget_update(); }

  // Where the vectors are in device memory. Reused thresholds are the host's.
  bool use_devices() const override { return !reuses(); }
  function_memory memory_on_device() const override { return vectors_.memory(state_.loaded_residual()); }
  void use_device(std::byte* device, std::byte* staging) override;
  result<const sparse_job*> prepare(std::uint32_t number, round_no round, const function_input& source,
                                    const function_input& by, const function_output& target) override;

 private:
  bool reuses() const { return problem_.selection == selection_rule::reused; }
  /// The least magnitude that is gathered of sums, where thresholds are reused.
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
  region_parts parts_;                     ///< of the regions between them
  std::vector<std::byte> selected_;        ///< what select works in, more than k items
  std::uint64_t selected_count_ = 0;
  std::vector<std::byte> sent_;  ///< what split gave away
  std::uint64_t sent_count_ = 0;
  region_sum sum_;
  global_threshold threshold_;
  std::vector<std::uint64_t> kept_;  ///< P: by owners
  std::uint64_t ties_ = 0;           ///< that this rank keeps
  balance_plan plan_;
  top_k_hint hint_{};            ///< of rounds in which a threshold selects too many
  bool looks_ = true;            ///< for thresholds, in this round
  reused_thresholds next_{};     ///< after this round
  std::vector<std::byte> best_;  ///< the result, in rounds that look
  // Of a round whose steps are called as functions:
  std::vector<item_list> lists_;                ///< by rank
  std::vector<std::uint64_t> pieces_, shares_;  ///< lengths
};

}  // namespace lsched
