// How kernels of the table (ops/kernel.h) are launched on a device: functions of the device image, grids, and what the
// first of two passes leaves to the second. Nothing here calls the driver.
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
  std::array<char, 32> text{};  ///< ends with zeros

  constexpr const char* c_str() const { return text.data(); }
  constexpr operator std::string_view() const { return text.data(); }
};

/// Those of all functions. Others name them by their places here.
std::span<const device_symbol> device_symbols();

inline constexpr std::uint32_t k_no_device_function = ~std::uint32_t{0};

/// A kernel of one dtype: found once, at commit. Its functions are given one device_arguments (kernels/arguments.h).
struct device_kernel {
  std::uint32_t first = k_no_device_function;   ///< place in device_symbols()
  std::uint32_t second = k_no_device_function;  ///< of a kernel in two passes: launched behind the first, likewise
  std::uint32_t vector = 1;                     ///< elements that a thread takes at once; of kernels in one pass

  bool has_two_passes() const { return second != k_no_device_function; }

  // A grid has at least one block, also of no elements: such a launch does nothing, or writes sums that are zeros.
  device_grid grid_of_first(std::uint64_t count) const;
  device_grid grid_of_second(std::uint64_t count) const;

  /// Of device memory, aligned for f64; 0: none.
  std::uint64_t workspace_bytes(std::uint64_t count) const;
};

/// nullopt: it does not run on devices. Of `adasum` it is c = x a + y b, where the host has made the coefficients of
/// the sums (adasum_coefficients_of); sums of `dot_norms` lie at c, aligned for f64. Null operands only that one takes.
std::optional<device_kernel> find_device_kernel(kernel what, dtype type);

/// What jobs of sparse vectors are made of (sparse_launch.h; kernels/sparse.cu).
enum class vector_step : std::uint8_t { count, tally, take, put, leave, drop, narrow, scan, clear };

/// The place in device_symbols() of a step over vectors of a floating type.
std::uint32_t function_of(vector_step step, dtype type);

/// The conversion of one floating type to another (ops/elementwise/elementwise.h): c = x a.
std::optional<device_kernel> find_device_conversion(dtype from, dtype to);

}  // namespace lsched
