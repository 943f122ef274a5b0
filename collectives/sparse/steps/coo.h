// A sum of sparse vectors that users bring: what one rank computes between messages (coo_problem.h).
//
//   sort    check, and sort by index
//   sample  where regions are balanced: note some of the indices; then find all ranks' boundaries by all ranks' samples
//   take    add up what has the same index: a list for each region, of the accumulator's type
//   sum     the lists of all ranks for the own region are merged; rounded to the values' type
//   judge   how many items all regions have, and what is wrong with what ranks have brought: the same on all ranks
//   give    the sums of all regions become the user's
//
// A value of the result is (of rank 0's values, the first + the second + …) + (likewise of rank 1) + …, as far as ranks
// have given the index, in the order in which they have given them; f32 for 16-bit types, else the values' own type;
// rounded once, NaN is the positive quiet one without payload. Lists may have zeros here (other than in sparse.h).
//
// In a round that is not good nothing of the user's is written but the count, and all lists after judging are empty.
#pragma once

#include <span>
#include <vector>

#include "collectives/sparse/protocol/coo_problem.h"
#include "collectives/sparse/protocol/problem.h"
#include "ops/elementwise/elementwise.h"
#include "ops/sparse/sparse.h"

namespace lsched {

/// What can be wrong with a round.
enum class coo_flaw : std::uint8_t {
  none,
  many_items,   ///< a rank brings more than there is room for
  large_index,  ///< one of a rank's is not below `count`
  large_result  ///< it has more items than there is room for
};

/// The same on all ranks.
struct coo_verdict {
  coo_flaw flaw = coo_flaw::none;
  rank culprit = k_no_rank;  ///< the lowest whose items are wrong
  std::uint64_t items = 0;   ///< of the result, or what it would have; 0 if a rank's items are wrong
};

inline constexpr std::uint64_t k_no_sample = ~std::uint64_t{0};

/// Allocates when made, 16 bytes for each of `room` items and more for some types; steps do not. One thread at a time.
class coo {
 public:
  explicit coo(const coo_problem& of);

  const coo_problem& problem() const { return problem_; }

  /// The user's items of this round: memory that remains until they are taken. If something is wrong with them, there
  /// are none.
  coo_flaw sort(const std::uint64_t* indices, const void* values, std::uint64_t number);

  /// sample_room(problem) numbers: of the vector's elements, ascending, and then k_no_sample.
  void sample(std::span<std::uint64_t> samples) const;
  /// samples: of all ranks, one behind the other; they are put in order.
  void set_boundaries(std::span<const std::uint64_t> samples);

  /// Writes lists for all regions to `items`, one behind the other, and their P lengths; there is room for
  /// taken_room(problem).
  void take(std::byte* items, std::span<std::uint64_t> lengths);

  /// `lists`: what all ranks have taken of this rank's region, in rank order. Writes the sum, up to sum_room(problem)
  /// items; answers how many it has, also if these are more.
  std::uint64_t sum(std::span<const item_list> lists, std::byte* items);

  /// tallies: of all ranks, k_coo_tally words each: items of its sum, and the flaw of what it has brought.
  coo_verdict judge(std::span<const std::uint64_t> tallies) const;

  // `sums`: of all regions, in their order.
  void give_indices(std::span<const item_list> sums, std::uint64_t* indices) const;
  void give_values(std::span<const item_list> sums, std::byte* values) const;
  /// All of the vector, if it is another one than the last time; else only what was not zero, or will not be.
  void give_dense(std::span<const item_list> sums, std::byte* vector);
  /// The next vector is zeroed as a whole, whichever it is.
  void forget_vector() { last_vector_ = nullptr; }

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

  template <class Sum>
  void add_up(const Sum* values, std::byte* items, std::span<std::uint64_t> lengths) const;
  template <class Sum>
  std::uint64_t merge(std::span<const item_list> lists, std::byte* items);
  void open(std::span<const item_list> lists, std::size_t width);
  void advance(std::size_t width);

  coo_problem problem_;
  dtype sums_;        ///< what is added up in
  convert_fn widen_;  ///< nullptr: values are of that type
  convert_fn round_;
  std::vector<std::uint64_t> boundaries_;  ///< P+1 positions
  std::vector<std::uint64_t> samples_;
  std::vector<entry> order_;
  std::uint64_t number_ = 0;  ///< of these that count
  const void* values_ = nullptr;
  std::vector<float> widened_;
  std::vector<cursor> heap_;
  const std::byte* last_vector_ = nullptr;
  std::vector<std::uint64_t> last_;  ///< where that is not zero
};

}  // namespace lsched
