// What one SIMD target contributes to linear.h: its table of kernels. Internal to ops/.
#pragma once

#include <array>

#include "ops/adasum/linear.h"
#include "ops/kernel.h"

namespace lsched {

/// The kernels of one floating type.
struct linear_kernels {
  dot_norms_fn dot_norms = nullptr;
  scaled_add_fn scaled_add = nullptr;
  kernel_fn dot_norms_call = nullptr;
  kernel_fn adasum_call = nullptr;
};

/// What `find` answers of dot_norms and adasum.
kernel_fn find_adaptive(kernel what, dtype type);

/// f16, bf16, f32, f64: in the order of dtype.
using linear_table = std::array<linear_kernels, 4>;

/// The table of a Highway target bit, or nullptr where this build lacks the target. linear-inl.h specialises it
/// once for each target it is compiled for.
template <std::int64_t Target>
inline constexpr const linear_table* k_linear_table_of_target = nullptr;

}  // namespace lsched
