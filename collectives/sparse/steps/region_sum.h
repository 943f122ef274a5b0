// The sum of lists of one region, in the order in which they are added.
#pragma once

#include "collectives/sparse/protocol/problem.h"
#include "collectives/sparse/steps/zeroed_memory.h"

namespace lsched {

/// Memory for a dense vector, of which only what was added to, ever, takes space.
class region_sum {
 public:
  /// Of vectors of `count` elements. Under nan_policy::ignore, sums that are NaN are passed over. Throws
  /// std::bad_alloc.
  region_sum(dtype type, std::uint64_t count, nan_policy nans);

  /// Positions of items are below `count`. O(items).
  void add(item_list list);

  /// Writes the sum of what was added since the last call, all of it in [begin, end), as a list; answers its length.
  /// Each item is 0 + v0 + v1 + …, in the order of addition and the residual's type, rounded once; zeros are dropped.
  /// There is room for all that is touched. O(items + (end - begin) / 64).
  std::uint64_t take(std::uint64_t begin, std::uint64_t end, std::byte* items);

 private:
  dtype type_;
  nan_policy nans_;
  zeroed_memory sums_;
  zeroed_memory touched_;
};

}  // namespace lsched
