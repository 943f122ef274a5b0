// Elementwise kernels: reductions, division, and conversion from one floating format to another.
//
// Code outside ops/ calls find(), find_reduce() and find_divide() (ops/kernel.h), and find_convert().
#pragma once

#include <array>
#include <cstddef>

#include "ops/base.h"
#include "ops/kernel.h"

namespace lsched {

/// Computes output[i] = factor * input[i]. The product is rounded to f64, and then to nearest even in the output's
/// type, also if the result is subnormal. If `factor` is a power of two, the result is rounded only once. Values that
/// are too large become infinity, and a NaN becomes the positive quiet NaN without payload. `input` and `output` must
/// be disjoint. The other rules of ops/kernel.h apply.
using convert_fn = void (*)(const void* input, std::size_t count, double factor, void* output);

/// Returns the conversion between two types, or nullptr if either is not a floating type.
convert_fn find_convert(dtype from, dtype to);

/// Returns the function of kernel `what`. `what` must be kernel::divide or a reduction, but not kernel::user. find()
/// (ops/kernel.h) calls this function.
kernel_fn find_elementwise(kernel what, dtype type);

// ---- internal to ops/elementwise

/// Returns the index of a reduction in elementwise_kernels::reductions.
constexpr std::size_t row_of_reduction(kernel what) {
  return static_cast<std::size_t>(what) - static_cast<std::size_t>(kernel::sum);
}
constexpr kernel reduction_in_row(std::size_t row) {
  return static_cast<kernel>(row + static_cast<std::size_t>(kernel::sum));
}
static_assert(row_of_reduction(kernel::bxor) + 1 == k_all_reductions.size());

/// A reduction as a function of its operands (`run`), and as a function of a kernel_call (`call`). Both pointers are
/// nullptr if and only if `supports` returns false.
struct reduction_kernel {
  reduce_fn run = nullptr;
  kernel_fn call = nullptr;
};

/// The kernels of one dtype.
struct elementwise_kernels {
  std::array<reduction_kernel, k_all_reductions.size()> reductions{};
  divide_fn divide = nullptr;
  kernel_fn divide_call = nullptr;
  std::array<convert_fn, 4> convert_to{};  ///< targets: f16, bf16, f32, f64; nullptr unless this dtype is floating
};
using elementwise_table = std::array<elementwise_kernels, k_all_dtypes.size()>;

}  // namespace lsched
