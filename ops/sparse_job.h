// Jobs for a device in a round of a sparse allreduce whose vectors are in device memory. The device runs the first step
// and the last step. The host runs the steps in between, which process lists of items.
//
// The application owns the vectors `gradient` and `update`. The schedule owns the vector `residual`, the part of the
// gradients that has not been sent yet. All three vectors are in device memory. Lists of items are in staging memory
// and 4-byte aligned. An item's index is relative to the first element of the vectors. The results are bitwise equal to
// the results of the host's kernels (sparse.h).
#pragma once

#include <cstdint>
#include <variant>

#include "ops/base.h"

namespace lsched {

/// The first step. It computes the same as `top_k` (sparse.h) without a hint. It adds scale * gradient to the residual.
/// Then it writes the k elements with the largest magnitudes as items, ascending by index. Zeros are never written.
struct sparse_selection {
  dtype type = dtype::f32;  ///< type of gradient and items
  void* residual = nullptr;
  const void* gradient = nullptr;  ///< nullptr: the residual is only read
  double scale = 1;
  std::uint64_t count = 0;  ///< elements
  std::uint64_t k = 0;      ///< at most `count`
  bool ignores_nan = false;
  std::byte* items = nullptr;      ///< array of the results; its capacity is at least k items
  std::uint64_t* found = nullptr;  ///< result: number of items written; in staging memory
};

/// The last step. It does the following work, in this order:
///
///   drop    residual[i] = 0 if its magnitude is at least `least_dropped`; skipped if `least_dropped` is 0
///   clear   update[i] = 0 for every i if `clears_all`, else for the indices of the list `cleared`
///   put     update[index] = value / divisor, for each item of `result`
///   leave   the sent value is removed from residual[index] (`settle` in sparse.h), for each item of `leaving`
struct sparse_settlement {
  struct list {
    const std::byte* items = nullptr;
    std::uint64_t count = 0;
  };
  dtype type = dtype::f32;  ///< type of update and items
  void* residual = nullptr;
  void* update = nullptr;
  std::uint64_t count = 0;  ///< elements
  std::uint64_t least_dropped = 0;
  bool clears_all = false;
  list cleared{}, result{}, leaving{};
  std::uint64_t divisor = 1;
};

using sparse_job = std::variant<sparse_selection, sparse_settlement>;

}  // namespace lsched
