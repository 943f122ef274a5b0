// Finds the exact k-th largest magnitude in lists that are distributed over the ranks.
//
// Magnitudes are numbers of 15, 31 or 63 bits (sparse.h). Each pass determines the next few bits of the k-th magnitude,
// the highest bits first. For each value of these bits, a rank counts the items with this value that agree with the
// k-th magnitude in all higher bits. The next bits follow from the sum of these counts over all ranks. After the last
// pass, all bits are known.
//
//     f16, bf16: 2 passes of 8 and 7 bits   f32: 4 passes, 3 of 8 bits and 1 of 7   f64: 8 passes, 7 of 8 and 1 of 7
//
// With more bits in a pass, there would be fewer messages but more words. Three passes of 11 bits need four times as
// many words.
#pragma once

#include <span>

#include "collectives/sparse/steps/problem.h"

namespace lsched {

/// Returns the number of passes. They are numbered from 0.
unsigned threshold_passes(dtype type);
/// Returns the number of passes for a problem. It is 0 with reused thresholds, for which all sums are gathered.
unsigned threshold_passes(const sparse_problem& problem);
/// Returns the number of bins, u64, of a pass.
std::uint64_t threshold_bins(dtype type, unsigned pass);

/// The numbers of items in a list above the k-th magnitude, and equal to it.
struct magnitude_tally {
  std::uint64_t above = 0;
  std::uint64_t equal = 0;
};

/// Returns the number of items with at least this magnitude. O(list).
std::uint64_t items_from(dtype type, item_list list, std::uint64_t magnitude);

/// The search on one rank. All ranks find the same magnitude. The object keeps the state of a round from pass to pass.
class global_threshold {
 public:
  global_threshold(dtype type, std::uint64_t k) : type_(type), k_(k) {}

  /// Writes this rank's bins of a pass. `before` has the sums over all ranks of the previous pass. `before` is empty in
  /// pass 0, which begins a round. O(list + bins).
  void count(unsigned pass, item_list list, std::span<const std::uint64_t> before, std::span<std::uint64_t> bins);

  /// Evaluates the last pass. If all ranks together have fewer than k items, the magnitude is 0 and all items are above
  /// this magnitude. If k is 0, no item is above the magnitude.
  magnitude_tally finish(item_list list, std::span<const std::uint64_t> last);

  /// Returns the k-th magnitude, after finish().
  std::uint64_t magnitude() const { return low_; }

 private:
  void narrow(unsigned pass, std::span<const std::uint64_t> sums);

  dtype type_;
  std::uint64_t k_;
  std::uint64_t low_ = 0;  ///< known bits of the k-th magnitude, then zeros
};

}  // namespace lsched
