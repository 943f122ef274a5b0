// Elementwise kernels: reductions, division, and conversion from one floating format to another.
//
// Code outside ops/ calls find, find_reduce and find_divide (ops/kernel.h), and find_convert.
#pragma once

#include <array>
#include <cstddef>

#include "ops/base.h"
#include "ops/kernel.h"

namespace lsched {

/// Computes output[i] = factor * input[i]. The product is rounded to f64, and then to nearest even in the output's
/// type, subnormals included. If factor is a power of two, the result is rounded only once. Values that are too large
/// become infinity, and a NaN becomes the positive quiet NaN without payload. input and output are disjoint. The other
/// rules of ops/kernel.h apply.
using convert_fn = void (*)(const void* input, std::size_t count, double factor, void* output);

/// Returns nullptr if one of the types is not floating.
convert_fn find_convert(dtype from, dtype to);

/// Returns the kernels for `find`: reductions other than `user`, and divide.
kernel_fn find_elementwise(kernel what, dtype type);

// ---- internal to ops/elementwise

/// Returns the row of a reduction. Rows and dtypes are in the order of their enumerators.
constexpr std::size_t row_of_reduction(kernel what) {
  return static_cast<std::size_t>(what) - static_cast<std::size_t>(kernel::sum);
}
constexpr kernel reduction_in_row(std::size_t row) {
  return static_cast<kernel>(row + static_cast<std::size_t>(kernel::sum));
}
static_assert(row_of_reduction(kernel::bxor) + 1 == k_all_reductions.size());

/// A reduction as a function of its operands, and as a function of a kernel_call. Both are nullptr exactly if
/// `supports` returns false.
struct reduction_kernel {
  reduce_fn run = nullptr;
  kernel_fn call = nullptr;
};

/// The kernels of one dtype.
struct elementwise_kernels {
  std::array<reduction_kernel, k_all_reductions.size()> reductions{};
  divide_fn divide = nullptr;
  kernel_fn divide_call = nullptr;
  std::array<convert_fn, 4> convert_to{};  ///< to f16, bf16, f32 and f64; only for floating dtypes
};
using elementwise_table = std::array<elementwise_kernels, k_all_dtypes.size()>;

}  // namespace lsched
