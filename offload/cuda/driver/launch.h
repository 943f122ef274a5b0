// Launch parameters for the kernels in ops/kernel.h: the functions of the device image, the grids, and the size of the
// workspace. The workspace is memory for data between two passes of a kernel. No function of this file calls the
// driver.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "offload/cuda/driver/grid.h"
#include "ops/base.h"
#include "ops/kernel.h"

namespace lsched {

/// The name of a function in the device image.
struct device_symbol {
  std::array<char, 32> text{};  ///< zero-terminated

  constexpr const char* c_str() const { return text.data(); }
  constexpr operator std::string_view() const { return text.data(); }
};

/// Returns the names of all functions. Other code identifies a function by its index in this span.
std::span<const device_symbol> device_symbols();

inline constexpr std::uint32_t k_no_device_function = ~std::uint32_t{0};

/// A kernel for one dtype. Each function of the kernel has one parameter, a device_arguments (kernels/arguments.h).
struct device_kernel {
  std::uint32_t first = k_no_device_function;   ///< index in device_symbols()
  std::uint32_t second = k_no_device_function;  ///< index of the function for the second pass
  std::uint32_t vector = 1;  ///< number of elements that a thread processes at once, for kernels with one pass

  bool has_two_passes() const { return second != k_no_device_function; }

  // A grid has at least one block, even if `count` is 0. A launch with `count` 0 writes nothing, except that
  // `dot_norms` writes sums of zero.
  device_grid grid_of_first(std::uint64_t count) const;
  device_grid grid_of_second(std::uint64_t count) const;

  /// Returns the size of the workspace in bytes, or 0 if none is needed. The workspace must be device memory aligned
  /// for f64.
  std::uint64_t workspace_bytes(std::uint64_t count) const;
};

/// Finds the functions of a kernel. Returns nullopt if devices do not have the kernel. On a device, `adasum` computes c
/// = x a + y b with coefficients that the host has computed (adasum_coefficients_of). `dot_norms` writes its sums to c,
/// which must be aligned for f64. Only `dot_norms` accepts null operands.
std::optional<device_kernel> find_device_kernel(kernel what, dtype type);

/// The functions for jobs on sparse vectors (sparse_launch.h; kernels/sparse.cu).
enum class vector_step : std::uint8_t { count, tally, take, put, leave, drop, narrow, scan, clear };

/// Returns the index in device_symbols() of the function for `step` and the floating-point type `type`.
std::uint32_t function_of(vector_step step, dtype type);

/// Returns the conversion between two floating types (ops/elementwise/elementwise.h): c = x a.
std::optional<device_kernel> find_device_conversion(dtype from, dtype to);

}  // namespace lsched
