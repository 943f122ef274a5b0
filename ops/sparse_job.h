// Jobs of a device in a round of a sparse allreduce whose vectors are in device memory: the first step and the last.
// The host runs the steps in between, which process lists.
//
// The application owns gradient and update, the schedule owns the residual. All three are in device memory. Lists are
// in staging memory, 4-byte aligned, and their indices count from the first element of the vectors. The results have
// the same bits as the kernels of the same names (sparse.h).
#pragma once

#include <cstdint>
#include <variant>

#include "ops/base.h"

namespace lsched {

/// The first step, which is `top_k` without a hint: residual += scale * gradient, then the first k elements of the
/// order by magnitude, without zeros, ascending by index.
struct sparse_selection {
  dtype type = dtype::f32;  ///< type of gradient and items
  void* residual = nullptr;
  const void* gradient = nullptr;  ///< nullptr: nothing is added
  double scale = 1;
  std::uint64_t count = 0;  ///< elements
  std::uint64_t k = 0;      ///< at most `count`
  bool ignores_nan = false;
  std::byte* items = nullptr;      ///< room for k
  std::uint64_t* found = nullptr;  ///< number of items written, in staging memory
};

/// The last step, in this order:
///
///   drop    residual[i] = 0 if its magnitude is at least `least_dropped`, unless that is 0
///   clear   update = 0: all of it, or at the indices of the list `cleared`
///   put     update[index] = value / divisor, for the items of `result`
///   leave   residual[index] is settled (sparse.h), for the items of `leaving`
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
