// Tools for tests of kernels. They loop over SIMD targets, and convert elements between bit patterns and numbers. They
// also provide buffers with inaccessible memory behind the end. The tools share no code with the kernels.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/kernel.h"
#include "ops/simd_targets.h"

namespace lsched {

// ---- targets

inline std::vector<std::string> runnable_targets() {
  std::vector<std::string> names;
  while (!simd_target_at(names.size()).empty()) names.emplace_back(simd_target_at(names.size()));
  return names;
}

/// Runs `body` once on each target, and then restores the best target.
inline void on_every_target(const std::function<void()>& body) {
  for (const std::string& name : runnable_targets()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(force_simd_target(name));
    body();
  }
  ASSERT_TRUE(force_simd_target(""));
}

// ---- elements of floating-point types

struct binary_format {
  int fraction_bits;
  int least_exponent;
  int greatest_exponent;
};

inline constexpr binary_format k_binary16{10, -14, 15};
inline constexpr binary_format k_bfloat16{7, -126, 127};

inline double decode(const binary_format& format, std::uint64_t bits) {
  const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>((bits & 0x7FFFU) >> format.fraction_bits);
  const int fraction = static_cast<int>(bits & ((1U << format.fraction_bits) - 1));
  const int hidden = 1 << format.fraction_bits;
  if (exponent == format.greatest_exponent - format.least_exponent + 2)
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  const int significand = exponent == 0 ? fraction : fraction + hidden;
  return sign * std::ldexp(significand, format.least_exponent + std::max(exponent, 1) - 1 - format.fraction_bits);
}

/// Rounds a value to the format, and returns the bits. The rounding unit is one unit in the last place of the value's
/// binade. If rounding carries into the next binade, the bits are still correct.
inline std::uint64_t encode(const binary_format& format, double value) {
  const auto top = static_cast<std::uint64_t>(format.greatest_exponent - format.least_exponent + 2);
  const std::uint64_t infinity = top << format.fraction_bits;
  if (std::isnan(value)) return infinity + (1U << (format.fraction_bits - 1));
  const std::uint64_t sign = std::signbit(value) ? 0x8000U : 0;
  if (std::isinf(value)) return sign + infinity;
  const int exponent = value == 0.0 ? format.least_exponent : std::max(std::ilogb(value), format.least_exponent);
  const double units = std::nearbyint(std::ldexp(std::fabs(value), format.fraction_bits - exponent));
  const auto binade = static_cast<std::uint64_t>(exponent - format.least_exponent) << format.fraction_bits;
  return sign + std::min(binade + static_cast<std::uint64_t>(units), infinity);
}

inline std::uint64_t low_bytes(std::uint64_t bits, dtype type) {
  const auto unused = static_cast<int>(64 - 8 * size_of(type));
  return bits << unused >> unused;
}

/// Returns the value of an element as a double. `type` must be a floating type.
inline double value_of(dtype type, std::uint64_t bits) {
  switch (type) {
    case dtype::f16: return decode(k_binary16, bits);
    case dtype::bf16: return decode(k_bfloat16, bits);
    case dtype::f32: return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    default: return std::bit_cast<double>(bits);
  }
}

/// Returns the bits of a value in a floating type. The result for NaN is the canonical NaN.
inline std::uint64_t bits_of(dtype type, double value) {
  switch (type) {
    case dtype::f16: return encode(k_binary16, value);
    case dtype::bf16: return encode(k_bfloat16, value);
    case dtype::f32: return std::isnan(value) ? 0x7FC00000U : std::bit_cast<std::uint32_t>(static_cast<float>(value));
    default: return std::isnan(value) ? 0x7FF8000000000000U : std::bit_cast<std::uint64_t>(value);
  }
}

/// Divides an element of a floating type by `divisor`. Returns the exact quotient, rounded once to nearest even. A long
/// double represents every divisor exactly. The long double quotient may look like a tie between two values of `type`,
/// although the division has a remainder. The sign of the remainder then determines the direction.
inline std::uint64_t quotient(dtype type, std::uint64_t bits, std::uint64_t divisor) {
  static_assert(std::numeric_limits<long double>::digits >= 64);
  const auto value = static_cast<long double>(value_of(type, bits)), by = static_cast<long double>(divisor);
  if (!std::isfinite(value) || value == 0) return bits_of(type, value_of(type, bits));
  const int digits = type == dtype::f16 ? 11 : type == dtype::bf16 ? 8 : type == dtype::f32 ? 24 : 53;
  const int least = type == dtype::f16 ? -14 : type == dtype::f64 ? -1022 : -126;
  const long double wide = value / by, rest = std::fma(-wide, by, value);
  const int unit = std::max(std::ilogb(wide), least) - digits + 1;
  const long double units = std::ldexp(wide, -unit);
  const bool seems_tie = rest != 0 && std::abs(units - std::trunc(units)) == 0.5L;
  const long double nearest = !seems_tie ? std::nearbyint(units) : rest > 0 ? std::ceil(units) : std::floor(units);
  return bits_of(type, static_cast<double>(std::ldexp(nearest, unit)));
}

// ---- buffers

/// Memory of `bytes` bytes with an inaccessible page directly behind the last byte.
class guarded_memory {
 public:
  explicit guarded_memory(std::size_t bytes) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    mapped_ = (bytes + page_ - 1) / page_ * page_ + page_;
    start_ =
        static_cast<std::byte*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (start_ == MAP_FAILED || mprotect(start_ + mapped_ - page_, page_, PROT_NONE) != 0) std::abort();
  }
  guarded_memory(const guarded_memory&) = delete;
  guarded_memory& operator=(const guarded_memory&) = delete;
  ~guarded_memory() { munmap(start_, mapped_); }

  std::byte* last(std::size_t bytes) { return start_ + mapped_ - page_ - bytes; }

 private:
  std::size_t page_;
  std::size_t mapped_ = 0;
  std::byte* start_ = nullptr;
};

/// Guarded memory of `bytes` bytes. The destructor keeps the pages for the next object, because mapping pages takes
/// longer than a test of a kernel.
template <std::size_t bytes>
class reused_memory {
 public:
  reused_memory() {
    if (spare().empty()) spare().push_back(std::make_unique<guarded_memory>(bytes));
    memory_ = std::move(spare().back());
    spare().pop_back();
  }
  reused_memory(const reused_memory&) = delete;
  reused_memory& operator=(const reused_memory&) = delete;
  ~reused_memory() { spare().push_back(std::move(memory_)); }

  std::byte* last(std::size_t count) const { return memory_->last(count); }

 private:
  static std::vector<std::unique_ptr<guarded_memory>>& spare() {
    static std::vector<std::unique_ptr<guarded_memory>> kept;
    return kept;
  }

  std::unique_ptr<guarded_memory> memory_;
};

inline std::uint64_t read_element(const std::byte* from, std::size_t index, dtype type) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, from + index * size_of(type), size_of(type));  // little-endian, as on all supported targets
  return bits;
}

inline void write_element(std::byte* to, std::size_t index, dtype type, std::uint64_t bits) {
  std::memcpy(to + index * size_of(type), &bits, size_of(type));
}

/// Returns values that are likely to reveal incorrect arithmetic: limits of ranges, zeros, infinities, NaNs of all
/// kinds, and subnormals.
inline std::vector<std::uint64_t> hard_values(dtype type) {
  const auto width = static_cast<int>(8 * size_of(type));
  const std::uint64_t top = std::uint64_t{1} << (width - 1);
  std::vector<std::uint64_t> values{0, 1, 2, 3, top, top + 1, top - 1, ~std::uint64_t{0}};
  if (is_floating(type)) {
    for (const double x : {1.0, -1.0, 1.5, 65504.0, 65519.0, 0x1p-14, 0x1p-24, 0x1p-126, 3e38})
      values.push_back(bits_of(type, x));
    const std::uint64_t infinity = bits_of(type, std::numeric_limits<double>::infinity());
    for (const std::uint64_t special : {infinity, infinity - 1, infinity + 1, infinity + 3})
      values.insert(values.end(), {special, special + top});
    values.push_back(bits_of(type, std::nan("")) + top + 5);
  }
  return values;
}

}  // namespace lsched
