// Formats of elements. A format converts between an element in memory and a number for arithmetic. ops/kernel.h
// specifies the bits of the results. Every NaN is written as the positive quiet NaN without payload.
#pragma once

#include <cstdint>
#include <type_traits>

#include "offload/cuda/kernels/device.h"

namespace lsched {

template <class To, class From>
LSCHED_DEVICE To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

LSCHED_DEVICE float canonical(float value) { return value != value ? bits_as<float>(0x7FC00000u) : value; }
LSCHED_DEVICE double canonical(double value) {
  return value != value ? bits_as<double>(std::uint64_t{0x7FF8000000000000}) : value;
}

/// Truncates a value to the 24 bits of an f32 significand (round to odd): if any dropped bit is set, sets the last kept
/// bit. A second rounding, to nearest even and fewer than 24 bits, then gives the same bits as a direct rounding of the
/// value.
LSCHED_DEVICE double cut_to_odd(double value) {
  const std::uint64_t exact = bits_as<std::uint64_t>(value), cut_off = (std::uint64_t{1} << 29) - 1;
  return bits_as<double>((exact | ((exact & cut_off) + cut_off)) & ~cut_off);
}

// A format defines `element` (the type in memory), `number` (the type for arithmetic), and `fraction` (the number of
// fraction bits of an element). widen() is exact. narrow() rounds once to nearest even.

template <class Element>
struct plain {
  using element = Element;
  using number = Element;
  static constexpr int fraction = sizeof(Element) == 4 ? 23 : 52;  // used for floating-point types only

  static LSCHED_DEVICE number widen(element from) { return from; }
  static LSCHED_DEVICE element narrow(number value) {
    if constexpr (std::is_floating_point_v<Element>)
      return canonical(value);
    else
      return value;
  }
};

/// The format of bytes. Arithmetic always uses 32 bits (see keep_wide()).
template <class Element>
struct byte {
  using element = Element;
  using number = std::int32_t;

  static LSCHED_DEVICE number widen(element from) { return keep_wide(from); }
  static LSCHED_DEVICE element narrow(number value) { return static_cast<element>(value); }
};

/// The format bf16, which is the upper half of an f32.
struct brain {
  using element = std::uint16_t;
  using number = float;
  static constexpr int fraction = 7;

  static LSCHED_DEVICE number widen(element from) { return bits_as<float>(std::uint32_t{from} << 16); }

  /// Rounds to nearest even, and drops the lower half. The code adds 0x7FFF to the bits, plus 1 if the upper half is
  /// odd. This sum carries into the upper half if and only if the value must be rounded up. For the largest finite
  /// values, the carry gives infinity.
  static LSCHED_DEVICE element narrow(number value) {
    const std::uint32_t exact = bits_as<std::uint32_t>(value);
    const std::uint32_t rounded = exact + 0x7FFFu + (exact >> 16 & 1u);
    return static_cast<element>(value != value ? 0x7FC0u : rounded >> 16);
  }
};

/// IEEE binary16.
struct half {
  using element = std::uint16_t;
  using number = float;
  static constexpr int fraction = 10;

  static LSCHED_DEVICE number widen(element from) { return widen_half(from); }
  static LSCHED_DEVICE element narrow(number value) { return value != value ? element{0x7E00} : narrow_to_half(value); }
};

/// Rounds an f64 to the format. Rounds only once if the value is in the normal range of f32.
template <class Format>
LSCHED_DEVICE typename Format::element narrow_double(double value) {
  if constexpr (sizeof(typename Format::element) < sizeof(float)) value = cut_to_odd(value);
  return Format::narrow(static_cast<typename Format::number>(value));
}

using format_i8 = byte<std::int8_t>;
using format_u8 = byte<std::uint8_t>;
using format_i32 = plain<std::int32_t>;
using format_i64 = plain<std::int64_t>;
using format_u64 = plain<std::uint64_t>;
using format_f16 = half;
using format_bf16 = brain;
using format_f32 = plain<float>;
using format_f64 = plain<double>;

}  // namespace lsched

// Expands NAME(what, dtype) for each dtype.
#define LSCHED_OF_INTEGERS(NAME, what) NAME(what, i8) NAME(what, u8) NAME(what, i32) NAME(what, i64) NAME(what, u64)
#define LSCHED_OF_FLOATS(NAME, what) NAME(what, f16) NAME(what, bf16) NAME(what, f32) NAME(what, f64)
#define LSCHED_OF_NUMBERS(NAME, what) LSCHED_OF_INTEGERS(NAME, what) LSCHED_OF_FLOATS(NAME, what)
