// What a device does in a round of a sparse allreduce whose vectors are in device memory: the first step and the last.
// Everything in between are lists, which are the host's.
//
// Vectors are in device memory: the gradient and the update the application's, the residual the schedule's. Lists are
// in staging memory, 4-byte aligned, and indices count from the vectors' first element. What is computed has the bits
// of the kernels of the same names (sparse.h).
#pragma once

#include <cstdint>
#include <variant>

#include "ops/base.h"

namespace lsched {

/// residual += scale * gradient; then the first k elements of the order by magnitude, by index, without zeros: `top_k`
/// without a hint.
struct sparse_selection {
  dtype type = dtype::f32;  ///< of gradient and items
  void* residual = nullptr;
  const void* gradient = nullptr;  ///< nullptr: nothing is added
  double scale = 1;
  std::uint64_t count = 0;  ///< elements
  std::uint64_t k = 0;      ///< at most `count`
  bool ignores_nan = false;
  std::byte* items = nullptr;      ///< room for k
  std::uint64_t* found = nullptr;  ///< in staging memory: how many they are
};

/// In this order:
///
///   drop    residual[i] = 0 where its magnitude is not below `least_dropped`         if that is not 0
///   clear   update = 0: all of it, or at the indices of the list `cleared`
///   put     update[index] = value / divisor, for the items of `result`
///   leave   residual[index] is settled (sparse.h), for the items of `leaving`
struct sparse_settlement {
  struct list {
    const std::byte* items = nullptr;
    std::uint64_t count = 0;
  };
  dtype type = dtype::f32;  ///< of update and items
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
