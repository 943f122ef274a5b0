// Gaussiank: TopkA with lists of an estimated length. (Shi and others, Understanding Top-k Sparsification in
// Distributed Deep Learning, 2019.)
//
// The estimate assumes that the elements have a normal distribution, with the mean mu and the standard deviation sigma
// of the actual elements. Of n such elements, k exceed the following threshold by magnitude:
//
//     threshold = mu + sigma z      where z is the quantile of 1 - k / 2n
//
// Because the elements do not have a normal distribution, the threshold is adjusted. The threshold is divided by 1.02
// as long as fewer than 3/4 k elements exceed it, and multiplied by 1.02 as long as more than 5/4 k elements exceed it.
// There are at most 20 adjustments, all in the direction of the first. Each adjustment needs a pass over the residual.
// (The numbers are those of Ok-Topk's public VGG code. Other codes use other numbers.) In the end, any number of
// elements from 0 to n may exceed the threshold. A list has at most 2 k items. If more elements exceed the threshold,
// the 2 k largest are sent, and the others stay in the residual.
#pragma once

#include "collectives/sparse/steps/topka_steps.h"

namespace lsched {

/// Returns the x below which a standard normal number lies with the given probability, above 0 and below 1, to nine
/// digits. (Acklam, An algorithm for computing the inverse normal cumulative distribution function, 2003.)
double normal_quantile(double probability);

/// The result of gaussiank::select.
struct gaussian_list {
  std::uint64_t count = 0;      ///< number of items in the list
  std::uint64_t predicted = 0;  ///< number of elements that exceed the first threshold, before any adjustment
  double first_threshold = 0;   ///< estimate for elements with a normal distribution
  double threshold = 0;         ///< last threshold
  unsigned adjustments = 0;
};

/// The computations of one rank. Allocates in the constructor. Used by one thread at a time. Between select and settle,
/// the residual holds residual + gradient, so that a round that fails loses nothing.
class gaussiank : public gathered_sum {
 public:
  explicit gaussiank(const sparse_problem& problem);

  /// Writes the items that this rank sends. `residual` has `count` elements of residual_of(type). `gradient` has
  /// `count` elements, or is nullptr. The mean and the deviation are computed from the finite elements. The estimate is
  /// wrong if their squares overflow f64.
  gaussian_list select(std::byte* residual, const std::byte* gradient, std::byte* items);

  /// Returns only the length of the list, with the interface of topka. The hint is not used, because the class has its
  /// own hint.
  std::uint64_t select(std::byte* residual, const std::byte* gradient, top_k_hint&, std::byte* items) {
    return select(residual, gradient, items).count;
  }

 private:
  double first_threshold(const std::byte* residual) const;
  select_result select_above(double threshold, std::byte* residual, std::byte* items) const;

  sparse_problem problem_;
  std::uint64_t k_;
  top_k_hint hint_;  ///< hint for rounds that find too many items
};

}  // namespace lsched
