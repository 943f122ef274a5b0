// Launch parameters of kernels of the table (ops/kernel.h) on a device: functions of the image, grids, and the
// workspace between two passes. Nothing here calls the driver.
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

/// Returns the names of all functions. Other code refers to a function by its index here.
std::span<const device_symbol> device_symbols();

inline constexpr std::uint32_t k_no_device_function = ~std::uint32_t{0};

/// A kernel for one dtype, found once, at commit. Its functions take one device_arguments (kernels/arguments.h).
struct device_kernel {
  std::uint32_t first = k_no_device_function;   ///< index in device_symbols()
  std::uint32_t second = k_no_device_function;  ///< index of the second pass, which is launched after the first
  std::uint32_t vector = 1;                     ///< elements that a thread processes at once, in kernels with one pass

  bool has_two_passes() const { return second != k_no_device_function; }

  // A grid has at least one block, also for no elements. Such a launch does nothing, or writes zero sums.
  device_grid grid_of_first(std::uint64_t count) const;
  device_grid grid_of_second(std::uint64_t count) const;

  /// Returns the size of the workspace, which is device memory aligned for f64; 0: none is needed.
  std::uint64_t workspace_bytes(std::uint64_t count) const;
};

/// Returns nullopt if the kernel does not run on devices. `adasum` is c = x a + y b, with coefficients that the host
/// has computed from the sums (adasum_coefficients_of). `dot_norms` writes its sums to c, aligned for f64. Only
/// `dot_norms` takes null operands.
std::optional<device_kernel> find_device_kernel(kernel what, dtype type);

/// The steps of jobs on sparse vectors (sparse_launch.h; kernels/sparse.cu).
enum class vector_step : std::uint8_t { count, tally, take, put, leave, drop, narrow, scan, clear };

/// Returns the index in device_symbols() of a step over vectors of a floating type.
std::uint32_t function_of(vector_step step, dtype type);

/// Returns the conversion between two floating types (ops/elementwise/elementwise.h): c = x a.
std::optional<device_kernel> find_device_conversion(dtype from, dtype to);

}  // namespace lsched
