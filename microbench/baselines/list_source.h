// The lists that ranks would send of drawn gradients, without a vector for each of them: for worlds of thousands.
#pragma once

#include <vector>

#include "collectives/sparse/protocol/problem.h"
#include "microbench/baselines/gradient_source.h"
#include "ops/sparse/sparse.h"

namespace lsched {

/// Draws lists. Allocates when made: one vector, and one list. One thread at a time.
class list_source {
 public:
  /// Of items of a floating type, k of them at most.
  list_source(const gradient_options& options, dtype type, std::uint64_t k);

  /// The k largest elements of a rank's gradient in a round, by index; gone with the next call. O(count).
  item_list draw(rank of, round_no round);

 private:
  gradient_source gradients_;
  dtype type_;
  std::uint64_t k_;
  std::uint64_t room_;
  std::vector<float> narrow_;
  std::vector<double> wide_;  ///< where items are f64
  std::vector<std::byte> items_;
  top_k_hint hint_;
};

}  // namespace lsched
