// Elementwise kernels: reductions, division, and conversion from one floating format to another.
//
// Everybody else calls find, find_reduce and find_divide from ops/kernel.h, and find_convert.
#pragma once

#include <array>
#include <cstddef>

#include "ops/base.h"
#include "ops/kernel.h"

namespace lsched {

/// output[i] = factor * input[i], the product rounded to f64 and that to nearest even in the output's type, its
/// subnormals included: once in all if factor is a power of two. What is too large becomes an infinity, NaN the
/// positive quiet one without payload. input and output are disjoint; else as all kernels (ops/kernel.h).
using convert_fn = void (*)(const void* input, std::size_t count, double factor, void* output);

/// nullptr if one of them is an integer.
convert_fn find_convert(dtype from, dtype to);

/// What `find` answers of reductions but `user`, and of divide.
kernel_fn find_elementwise(kernel what, dtype type);

// ---- internal to ops/elementwise

/// Row of a reduction. Rows and dtypes are in the order of their enumerators.
constexpr std::size_t row_of_reduction(kernel what) {
  return static_cast<std::size_t>(what) - static_cast<std::size_t>(kernel::sum);
}
constexpr kernel reduction_in_row(std::size_t row) {
  return static_cast<kernel>(row + static_cast<std::size_t>(kernel::sum));
}
static_assert(row_of_reduction(kernel::bxor) + 1 == k_all_reductions.size());

/// A reduction as a function of its operands and of a kernel_call; nullptr exactly where `supports` says no.
struct reduction_kernel {
  reduce_fn run = nullptr;
  kernel_fn call = nullptr;
};

/// The kernels of one dtype.
struct elementwise_kernels {
  std::array<reduction_kernel, k_all_reductions.size()> reductions{};
  divide_fn divide = nullptr;
  kernel_fn divide_call = nullptr;
  std::array<convert_fn, 4> convert_to{};  ///< f16, bf16, f32, f64; of a floating dtype
};
using elementwise_table = std::array<elementwise_kernels, k_all_dtypes.size()>;

}  // namespace lsched
