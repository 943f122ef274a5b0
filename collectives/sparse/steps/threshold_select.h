// The first step of a round that reuses a threshold: a gradient joins the residual, and all elements whose magnitude
// is not below the threshold are what a rank has to send.
#pragma once

#include "collectives/sparse/protocol/problem.h"
#include "ops/sparse/sparse.h"

namespace lsched {

/// As many items as a rank selects at most (most_selected); of more the first of the order by magnitude.
class threshold_select {
 public:
  explicit threshold_select(const sparse_problem& of) : of_(of) {}

  /// Accumulates once, then writes to `items`, by index, every element whose magnitude, rounded to the items' type, is
  /// at least `threshold`, and none that is zero; answers how many these are. threshold: bits of the items' type. There
  /// is room for most_selected items, all of which may be overwritten. One pass over the residual, and a few more if
  /// that is too many.
  std::uint64_t select(const accumulation& from, std::uint64_t threshold, std::byte* items);

 private:
  magnitude_range range_from(std::uint64_t threshold) const;

  sparse_problem of_;
  top_k_hint hint_{};  ///< of rounds that find too many
};

}  // namespace lsched
