// Finds the exact k-th largest magnitude in lists that are distributed over ranks.
//
// Magnitudes are numbers of 15, 31 or 63 bits (sparse.h). Each pass determines the next few bits of the k-th magnitude,
// beginning with the highest. The higher bits are known from earlier passes. For each value of the next bits, a rank
// counts the items with the known higher bits and this value. The count of the largest value also includes all larger
// magnitudes. The sums of these counts over all ranks determine the next bits. After the last pass, all bits are known.
//
//     f16, bf16: 2 passes of 8 and 7 bits   f32: 4 passes, 3 of 8 bits and 1 of 7   f64: 8 passes, 7 of 8 and 1 of 7
//
// With more bits per pass, there would be fewer messages but more words. For f32, three passes of 10 or 11 bits would
// need more than four times as many words.
#pragma once

#include <span>

#include "collectives/sparse/steps/problem.h"

namespace lsched {

/// Returns the number of passes. Passes are counted from 0.
unsigned threshold_passes(dtype type);
/// Returns the number of passes for a problem, or 0 with reused thresholds.
unsigned threshold_passes(const sparse_problem& problem);
/// Returns the number of bins (u64 counters) of a pass.
std::uint64_t threshold_bins(dtype type, unsigned pass);

/// The number of items of a list whose magnitude is above the k-th magnitude, and the number of items whose magnitude
/// equals the k-th magnitude.
struct magnitude_tally {
  std::uint64_t above = 0;
  std::uint64_t equal = 0;
};

/// Returns the number of items with at least this magnitude. O(list).
std::uint64_t items_from(dtype type, item_list list, std::uint64_t magnitude);

/// The search on one rank. All ranks find the same magnitude.
class global_threshold {
 public:
  global_threshold(dtype type, std::uint64_t k) : type_(type), k_(k) {}

  /// Writes this rank's bins of a pass. `before` must have the bins of the previous pass, summed over all ranks, and
  /// must be empty in pass 0, which begins a round. O(list + bins).
  void count(unsigned pass, item_list list, std::span<const std::uint64_t> before, std::span<std::uint64_t> bins);

  /// Evaluates the last pass. If all ranks together have fewer than k items, the magnitude is 0, and all items are
  /// above the magnitude. If k is 0, no item is above the magnitude.
  magnitude_tally finish(item_list list, std::span<const std::uint64_t> last);

  /// Returns the k-th magnitude. Valid after finish().
  std::uint64_t magnitude() const { return low_; }

 private:
  void narrow(unsigned pass, std::span<const std::uint64_t> sums);

  dtype type_;
  std::uint64_t k_;
  std::uint64_t low_ = 0;  ///< leading bits of the k-th largest magnitude that are known so far, padded with zeros
};

}  // namespace lsched
