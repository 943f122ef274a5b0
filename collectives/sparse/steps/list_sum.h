// The sum of any number of lists, in the order in which they come.
#pragma once

#include <span>
#include <vector>

#include "collectives/sparse/protocol/problem.h"
#include "ops/sparse/sparse.h"

namespace lsched {

/// A dense region of zeros to add in. Allocates when made.
class list_sum {
 public:
  /// Indices of lists are below `region`.
  list_sum(dtype type, std::uint64_t region);

  /// Writes 0 + v0 + v1 + … of each index, added in the residual's type and rounded once, and answers how many these
  /// are; none that is zero. There is room for as many items as lists have indices between them.
  std::uint64_t add(std::span<const item_list> lists, std::byte* items);

 private:
  std::uint64_t region_;
  decltype(sparse_kernels::scatter_add) scatter_add_;
  decltype(sparse_kernels::gather_touched) gather_touched_;
  std::vector<std::byte> sums_;
  std::vector<std::uint64_t> touched_;
};

}  // namespace lsched
