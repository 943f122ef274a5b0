// Gaussiank: TopkA with lists of an estimated length. (Shi and others, Understanding Top-k Sparsification in
// Distributed Deep Learning, 2019.)
//
// The estimate assumes that elements are normal, with their mean mu and their deviation sigma. Of n such elements, k
// exceed
//
//     threshold = mu + sigma z      where z is the quantile of 1 - k / 2n
//
// by magnitude. Because elements are not normal, the threshold is adjusted. As long as less than 3/4 k elements exceed
// the threshold, it is divided by 1.02. As long as more than 5/4 k do, it is multiplied by 1.02. There are at most 20
// adjustments, with a pass each, all in the direction of the first one. (These are the numbers of Ok-Topk's public VGG
// code. Other codes have others.) The final count may be anything from 0 to n. There is room for 2 k items. If more are
// found, the first 2 k of the order by magnitude are sent, and the others stay in the residual.
#pragma once

#include "collectives/sparse/steps/topka_steps.h"

namespace lsched {

/// Returns the x below which a standard normal number lies with the given probability, above 0 and below 1, to nine
/// digits. (Acklam, An algorithm for computing the inverse normal cumulative distribution function, 2003.)
double normal_quantile(double probability);

/// The result of gaussiank::select.
struct gaussian_list {
  std::uint64_t count = 0;      ///< items
  std::uint64_t predicted = 0;  ///< elements that exceed the first threshold
  double first_threshold = 0;   ///< estimate for normal elements
  double threshold = 0;         ///< last threshold
  unsigned adjustments = 0;
};

/// The computations of one rank. Allocates in the constructor. One thread at a time. Between select and settle, the
/// residual holds residual + gradient, so that a round that fails loses nothing.
class gaussiank : public gathered_sum {
 public:
  explicit gaussiank(const sparse_problem& problem);

  /// Writes the items that this rank sends. `residual` has `count` elements of residual_of(type). `gradient` has
  /// `count` elements, or is nullptr. Mean and deviation are those of the finite elements. The estimate is bad if the
  /// squares exceed f64.
  gaussian_list select(std::byte* residual, const std::byte* gradient, std::byte* items);

  /// Returns only the length, with the interface of topka. The hint is not used, because the class has its own hint.
  std::uint64_t select(std::byte* residual, const std::byte* gradient, top_k_hint&, std::byte* items) {
    return select(residual, gradient, items).count;
  }

 private:
  double first_threshold(const std::byte* residual) const;
  select_result select_above(double threshold, std::byte* residual, std::byte* items) const;

  sparse_problem problem_;
  std::uint64_t k_;
  top_k_hint hint_;  ///< for rounds that find too many items
};

}  // namespace lsched
