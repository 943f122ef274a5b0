// Gaussiank: TopkA with lists whose length is guessed. (Shi and others, Understanding Top-k Sparsification in
// Distributed Deep Learning, 2019.)
//
// As if elements were normal, with the mean mu and the deviation sigma that they have: of n numbers, k exceed
//
//     threshold = mu + sigma z      where z is the quantile of 1 - k / 2n
//
// by magnitude. They are not normal; so as long as less than 3/4 k elements exceed it, it is divided by 1.02, or as
// long as more than 5/4 k do, multiplied: at most 20 times, a pass each, in the direction that the first count asked
// for. (These are the numbers of Ok-Topk's public VGG code; other codes have others.) What is found is between nothing
// and everything; there is room for 2 k items, and of more than that the first 2 k of the order by magnitude are sent.
// What is not stays in the residual.
#pragma once

#include "collectives/sparse/steps/topka_steps.h"

namespace lsched {

/// The x that a standard normal number falls short of with a given probability, above 0 and below 1; to nine digits.
/// (Acklam, An algorithm for computing the inverse normal cumulative distribution function, 2003.)
double normal_quantile(double probability);

/// What select found.
struct gaussian_list {
  std::uint64_t count = 0;      ///< items
  std::uint64_t predicted = 0;  ///< elements that exceed the first threshold
  double first_threshold = 0;   ///< of normal elements
  double threshold = 0;         ///< the last one
  unsigned adjustments = 0;
};

/// What one rank computes. Allocates when made; one thread at a time. Between select and settle the residual holds all
/// of residual + gradient: a round that is given up loses nothing.
class gaussiank : public gathered_sum {
 public:
  explicit gaussiank(const sparse_problem& problem);

  /// Writes what this rank sends to `items`. residual: count elements of residual_of(type); gradient: count elements,
  /// or nullptr. Mean and deviation are those of finite elements; where squares of f64 cannot hold these, the guess is
  /// bad.
  gaussian_list select(std::byte* residual, const std::byte* gradient, std::byte* items);

  /// As of topka: the length. It has a hint of its own.
  std::uint64_t select(std::byte* residual, const std::byte* gradient, top_k_hint&, std::byte* items) {
    return select(residual, gradient, items).count;
  }

 private:
  double first_threshold(const std::byte* residual) const;
  select_result select_above(double threshold, std::byte* residual, std::byte* items) const;

  sparse_problem problem_;
  std::uint64_t k_;
  top_k_hint hint_;  ///< of the rounds that find too many
};

}  // namespace lsched
