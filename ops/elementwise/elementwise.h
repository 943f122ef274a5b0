// What one SIMD target contributes to the arithmetic: its table of kernels. Internal to ops/.
//
// Everybody else calls find, find_reduce and find_divide from ops/kernel.h.
#pragma once

#include <array>
#include <cstddef>

#include "ops/base.h"
#include "ops/kernel.h"

namespace lsched {

/// The kernels of one target, as functions of their operands and of a kernel_call. Those of reductions are nullptr
/// exactly where `supports` says no.
struct target_table {
  template <class Function>
  using by_dtype = std::array<Function, k_all_dtypes.size()>;

  std::array<by_dtype<reduce_fn>, k_all_reductions.size()> reduce{};
  std::array<by_dtype<kernel_fn>, k_all_reductions.size()> reduce_calls{};
  by_dtype<divide_fn> divide{};
  by_dtype<kernel_fn> divide_calls{};
};

/// What `find` answers of reductions but `user`, and of divide.
kernel_fn find_elementwise(kernel what, dtype type);

constexpr std::size_t place_of(kernel what) {
  return static_cast<std::size_t>(what) - static_cast<std::size_t>(kernel::sum);
}

constexpr std::size_t column_of(dtype type) { return static_cast<std::size_t>(type); }

/// Tables are indexed by enumerator but filled by walking the two lists: they must agree on the order.
constexpr bool are_lists_in_order() {
  for (std::size_t i = 0; i < k_all_reductions.size(); ++i)
    if (place_of(k_all_reductions[i]) != i) return false;
  for (std::size_t i = 0; i < k_all_dtypes.size(); ++i)
    if (column_of(k_all_dtypes[i]) != i) return false;
  return true;
}
static_assert(are_lists_in_order());

/// The table of a Highway target bit, or nullptr where this build lacks the target. elementwise-inl.h
/// specialises it once for each target it is compiled for.
template <std::int64_t Target>
inline constexpr const target_table* k_table_of_target = nullptr;

}  // namespace lsched
