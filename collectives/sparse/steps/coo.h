// A sum of sparse vectors that users bring (coo_problem.h): the functions of its schedule, which are what one rank
// computes between messages.
//
//   sort    check the user's items, and sort them by index
//   sample  where regions are balanced: note some of the indices; then find all ranks' boundaries by all ranks' samples
//   take    add up what has the same index: a list for each region, of the accumulator's type
//   sum     the lists of all ranks for the own region are merged; rounded to the values' type
//   plan    how many items all regions have, and what is wrong with what ranks have brought: the same on all ranks
//   give    the sums of all regions become the user's
//
// A value of the result is (of rank 0's values, the first + the second + …) + (likewise of rank 1) + …, as far as ranks
// have given the index, in the order in which they have given them; f32 for 16-bit types, else the values' own type;
// rounded once, NaN is the positive quiet one without payload. Lists may have zeros here (other than in sparse.h).
//
// In a round that is not good nothing of the user's is written but the count, and all lists after planning are empty.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "collectives/sparse/steps/coo_problem.h"
#include "collectives/sparse/steps/lists.h"
#include "collectives/sparse/steps/sparse_functions.h"
#include "ops/elementwise/elementwise.h"

namespace lsched {

/// The functions that the schedule calls, in the order in which a round calls them.
enum class coo_step : std::uint32_t {
  see_indices,   ///< the user's indices, and …
  see_values,    ///< … values, of which functions note where they are → a number that nobody reads
  sample,        ///< how many they are → samples of their indices; where regions are balanced
  take,          ///< how many they are, and perhaps all ranks' samples → a list for the owner of each region
  sum,           ///< lists of all ranks, of this rank's region → their sum
  tally,         ///< the sum → how many items that is, and what was wrong with what this rank has brought
  plan,          ///< this rank's tally, by those of all ranks → how many items come from each, if the round is good
  keep,          ///< the sum, by all tallies → the same, or nothing if the round is not
  give_indices,  ///< the sums of all regions → the user's indices, …
  give_values,   ///< … values, …
  give_count,    ///< … how many they are, …
  give_dense     ///< … and the vector
};

/// Words of a tally.
inline constexpr std::uint64_t k_coo_tally = 2;

/// What can be wrong with a round.
enum class coo_flaw : std::uint8_t {
  none,
  many_items,   ///< a rank brings more than there is room for
  large_index,  ///< one of a rank's is not below `count`
  large_result  ///< it has more items than there is room for
};

/// The same on all ranks.
struct coo_status {
  coo_flaw flaw = coo_flaw::none;
  rank culprit = k_no_rank;  ///< the lowest whose items are wrong
  std::uint64_t items = 0;   ///< of the result, or what it would have; 0 if a rank's items are wrong
};

/// What the schedule calls, on the memory of an instance and its user. Allocates when made, 16 bytes for each of `room`
/// items and more for some types; steps do not.
class coo_functions final : public functions {
 public:
  /// Throws std::bad_alloc.
  explicit coo_functions(const coo_problem& problem);

  status call(std::uint32_t number, round_no round, const function_input& source, const function_input& by,
              const function_output& target) override;

  /// The next vector is zeroed as a whole, whichever it is.
  void rebound() override { dense_.forget(); }

  const coo_problem& problem() const { return problem_; }

  /// There is no flaw but in the last round that was not good. Any thread, once the round has ended.
  coo_status status_of(round_no round) const;

 private:
  /// An item of the user's: where it is among them.
  struct entry {
    std::uint64_t index, position;
    friend auto operator<=>(const entry&, const entry&) = default;
  };
  /// The rest of a list.
  struct cursor {
    std::uint32_t index;
    std::uint32_t list;
    const std::byte* at;
    const std::byte* end;
  };

  void sort(std::uint64_t number);
  coo_flaw order(std::uint64_t number);
  void sample(std::span<std::uint64_t> samples) const;
  void set_boundaries(std::span<const std::uint64_t> samples);
  template <class Sum>
  void add_up(std::byte* items);
  template <class Sum>
  std::uint64_t merge(std::byte* items);
  void open(std::size_t width);
  void advance(std::size_t width);
  void plan(round_no round, std::span<const std::uint64_t> tallies, std::span<std::uint64_t> lengths);
  coo_status status_of_all(std::span<const std::uint64_t> tallies) const;
  template <class Visit>
  void for_each_sum(Visit visit) const;
  void give_dense(std::byte* vector);

  coo_problem problem_;
  dtype sums_;        ///< what is added up in
  convert_fn widen_;  ///< nullptr: values are of that type
  convert_fn round_;
  std::vector<std::uint64_t> boundaries_;  ///< P+1 positions
  std::vector<std::uint64_t> samples_;
  const std::uint64_t* user_indices_ = nullptr;  ///< in this round
  const std::byte* user_values_ = nullptr;
  std::vector<entry> order_;
  std::uint64_t number_ = 0;      ///< of these that count
  const void* values_ = nullptr;  ///< the user's, or widened
  std::vector<float> widened_;
  coo_flaw flaw_ = coo_flaw::none;  ///< of what this rank has brought
  std::vector<cursor> heap_;
  std::uint64_t items_ = 0;             ///< of this rank's sum
  coo_status status_{};                 ///< of this round
  std::vector<std::uint64_t> lengths_;  ///< of the lists for all regions
  std::vector<item_list> lists_;        ///< by rank, or region
  dense_update dense_;
  std::atomic<round_no> bad_round_{0};
  std::atomic<coo_flaw> bad_flaw_{coo_flaw::none};
  std::atomic<rank> bad_culprit_{k_no_rank};
  std::atomic<std::uint64_t> bad_items_{0};
};

}  // namespace lsched
