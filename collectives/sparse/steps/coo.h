// The functions that the schedule of coo_allreduce.h calls: the computations of one rank between messages.
//
//   sort    check the user's items, and sort the items by index
//   sample  if regions are balanced: sample the indices; then compute the boundaries from the samples of all ranks
//   take    add up items with the same index, and write a list for each region, in the accumulator's type
//   sum     merge the lists of all ranks for this rank's region, and round the sums to the values' type
//   plan    count the items of all regions, and find invalid items of any rank: the same result on all ranks
//   give    copy the sums of all regions to the user's buffers
//
// A value of the result is (v1 + v2 + … of rank 0) + (v1 + v2 + … of rank 1) + …. Ranks that have not contributed to
// the index are left out. The values of a rank are added in the user's order. The accumulator's type is f32 for 16-bit
// types, and the values' type otherwise. The sum is rounded once, and a NaN is the positive quiet NaN without payload.
// Unlike in sparse.h, lists may contain zeros.
//
// If a round has a flaw (coo_flaw), only the number of items is written to the user's memory. All lists after step
// `plan` are then empty.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "collectives/sparse/steps/coo_problem.h"
#include "collectives/sparse/steps/lists.h"
#include "collectives/sparse/steps/sparse_functions.h"
#include "ops/elementwise/elementwise.h"

namespace lsched {

/// The functions that the schedule calls, in their order.
enum class coo_step : std::uint32_t {
  see_indices,   ///< stores the address of the user's indices; writes no output
  see_values,    ///< stores the address of the user's values; writes no output
  sample,        ///< samples the indices of the user's items; called only if regions are balanced
  take,          ///< sets the boundaries if regions are balanced, and then writes a list for each region
  sum,           ///< sums the lists of all ranks for this rank's region
  tally,         ///< writes the number of items of the sum, and the coo_flaw of this rank's items
  plan,          ///< from the tallies of all ranks, writes the length of each rank's sum, or 0 if the round has a flaw
  keep,          ///< empties the list of the sum if the round has a flaw
  give_indices,  ///< writes the indices of the sums of all regions to the user's memory
  give_values,   ///< writes the values of these sums to the user's memory
  give_count,    ///< writes the number of items of these sums to the user's memory
  give_dense     ///< writes these sums to the user's vector
};

/// Number of words of a tally (the output of step `tally`).
inline constexpr std::uint64_t k_coo_tally = 2;

/// The reasons why a round has no result.
enum class coo_flaw : std::uint8_t {
  none,
  many_items,   ///< a rank has more items than `room`
  large_index,  ///< a rank has an index that is not below `count`
  large_result  ///< the result has more items than `result_room`
};

/// The outcome of a round, equal on all ranks.
struct coo_status {
  coo_flaw flaw = coo_flaw::none;
  rank culprit = k_no_rank;  ///< lowest rank whose items are invalid
  std::uint64_t items = 0;   ///< number of items of the result, even above capacity; 0 if items are invalid
};

/// The constructor allocates 16 bytes for each of `room` items, and more for some types. The functions do not allocate.
class coo_functions final : public functions {
 public:
  explicit coo_functions(const coo_problem& problem);

  status call(std::uint32_t number, round_no round, const function_input& source, const function_input& by,
              const function_output& target) override;

  /// Makes the next call of give_dense zero the whole vector.
  void rebound() override { dense_.forget(); }

  const coo_problem& problem() const { return problem_; }

  /// Returns the outcome of a round that has ended. Only the last round with a flaw is stored: for all other rounds,
  /// the returned status has no flaw. Thread-safe.
  coo_status status_of(round_no round) const;

 private:
  /// An item of the user, with its position among the user's items.
  struct entry {
    std::uint64_t index, position;
    friend auto operator<=>(const entry&, const entry&) = default;
  };
  /// The remaining items of a list during a merge.
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
  dtype sums_;        ///< type of the accumulator
  convert_fn widen_;  ///< converts values to type sums_; nullptr: values already have this type
  convert_fn round_;
  std::vector<std::uint64_t> boundaries_;  ///< P+1 positions
  std::vector<std::uint64_t> samples_;
  const std::uint64_t* user_indices_ = nullptr;  ///< the user's indices in this round
  const std::byte* user_values_ = nullptr;
  std::vector<entry> order_;
  std::uint64_t number_ = 0;      ///< number of valid entries of order_
  const void* values_ = nullptr;  ///< the user's values, or widened_
  std::vector<float> widened_;
  coo_flaw flaw_ = coo_flaw::none;  ///< flaw of this rank's items
  std::vector<cursor> heap_;
  std::uint64_t items_ = 0;             ///< number of items of this rank's sum
  coo_status status_{};                 ///< outcome of this round
  std::vector<std::uint64_t> lengths_;  ///< lengths of the lists for all regions
  std::vector<item_list> lists_;        ///< in step `sum`: the lists of all ranks; afterwards: the sums of all regions
  dense_update dense_;
  std::atomic<round_no> bad_round_{0};
  std::atomic<coo_flaw> bad_flaw_{coo_flaw::none};
  std::atomic<rank> bad_culprit_{k_no_rank};
  std::atomic<std::uint64_t> bad_items_{0};
};

}  // namespace lsched
