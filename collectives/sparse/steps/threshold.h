// The k-th largest magnitude of lists that many ranks have parts of, exactly.
//
// Magnitudes are numbers of 15, 31 or 63 bits (sparse.h). A pass counts, in each rank's list, how many items have
// which bits, a few at a time and the uppermost first, of those that agree with the k-th in what is known of it; from
// the sum over all ranks follow the k-th's next bits. After the last pass nothing is left to be guessed.
//
//     f16, bf16: 8 bits, 7: 2 passes      f32: three times 8 bits, 7: 4      f64: seven times 8 bits, 7: 8
//
// More bits a pass would be fewer messages, and more words: three of 11 bits are four times as many.
#pragma once

#include <span>

#include "collectives/sparse/steps/problem.h"

namespace lsched {

/// How many passes there are, counted from 0.
unsigned threshold_passes(dtype type);
/// Likewise, of a problem: none where the k-th of all is looked for by gathering all there is (selection_rule).
unsigned threshold_passes(const sparse_problem& problem);
/// How many bins, u64, a pass has.
std::uint64_t threshold_bins(dtype type, unsigned pass);

/// How many items of a list are above the k-th, and how many are like it.
struct magnitude_tally {
  std::uint64_t above = 0;
  std::uint64_t equal = 0;
};

/// How many items of a list have a magnitude, or more. O(list).
std::uint64_t items_from(dtype type, item_list list, std::uint64_t magnitude);

/// One rank's view of it; all ranks come to the same magnitude. It remembers a round from pass to pass.
class global_threshold {
 public:
  global_threshold(dtype type, std::uint64_t k) : type_(type), k_(k) {}

  /// Writes this rank's bins of a pass. before: the sums over all ranks of the pass before; empty in pass 0, which
  /// begins a round. O(list + bins).
  void count(unsigned pass, item_list list, std::span<const std::uint64_t> before, std::span<std::uint64_t> bins);

  /// Makes use of the last pass. Where all ranks together have fewer than k items, the magnitude is 0 and all are above
  /// it; where k is 0, none is.
  magnitude_tally finish(item_list list, std::span<const std::uint64_t> last);

  /// The k-th, once finished.
  std::uint64_t magnitude() const { return low_; }

 private:
  void narrow(unsigned pass, std::span<const std::uint64_t> sums);

  dtype type_;
  std::uint64_t k_;
  std::uint64_t low_ = 0;  ///< what is known of it: the bits so far, and zeros
};

}  // namespace lsched
