// Computes a / divisor. The result is the exact quotient, rounded once to nearest even. The results have the same bits
// as those of the host kernels (find_divide in ops/kernel.h).
#pragma once

#include <cstdint>
#include <type_traits>

#include "offload/cuda/kernels/formats.h"

namespace lsched {
namespace quotients {

/// Returns a quotient, rounded to nearest even. `below` is the quotient rounded down, and `rest` the remainder.
template <class Unsigned>
LSCHED_DEVICE Unsigned rounded(Unsigned below, Unsigned rest, Unsigned divisor) {
  const Unsigned missing = divisor - rest;
  return below + (rest > missing || (rest == missing && below % 2 != 0) ? 1 : 0);
}

// ---- integers

/// Divides an integer. If the divisor has more than 32 bits, the quotient of a 32-bit number is at most one half, which
/// is rounded to 0.
template <class Integer>
LSCHED_DEVICE Integer of_integer(Integer value, std::uint64_t divisor) {
  using unsigned_number = std::conditional_t<sizeof(Integer) == 8, std::uint64_t, std::uint32_t>;
  if (divisor > static_cast<unsigned_number>(~unsigned_number{0})) return 0;
  const auto by = static_cast<unsigned_number>(divisor), number = static_cast<unsigned_number>(value);
  bool is_negative = false;
  if constexpr (std::is_signed_v<Integer>) is_negative = value < 0;
  const unsigned_number magnitude = is_negative ? 0 - number : number;
  const unsigned_number nearest = rounded<unsigned_number>(magnitude / by, magnitude % by, by);
  return static_cast<Integer>(is_negative ? 0 - nearest : nearest);
}

// ---- floating-point numbers, by the division of the hardware if it is exact enough

/// Number of bits of a number's significand.
template <class Number>
inline constexpr int k_digits = sizeof(Number) == 4 ? 24 : 53;

/// The largest divisor for which a hardware division, followed by narrow(), gives the exact quotient rounded once. The
/// comment on most_divisor_of_lanes in ops/elementwise/elements-inl.h has the proof.
template <class Format>
inline constexpr std::uint64_t k_most_divisor =
    k_digits<typename Format::number> == Format::fraction + 1
        ? std::uint64_t{1} << k_digits<typename Format::number>
        : (std::uint64_t{1} << (k_digits<typename Format::number> - Format::fraction - 1)) - 1;

// ---- floating-point numbers, by integer arithmetic

LSCHED_DEVICE int width_of(std::uint64_t number) {
  int width = 0;
  for (int step = 32; step > 0; step /= 2)
    if (number >> step != 0) number >>= step, width += step;
  return width + (number != 0 ? 1 : 0);
}

/// A division that can be continued bit by bit.
struct long_division {
  std::uint64_t divisor, below, rest;

  LSCHED_DEVICE long_division(std::uint64_t dividend, std::uint64_t by)
      : divisor(by), below(dividend / by), rest(dividend % by) {}

  /// Doubles the dividend, and computes one more bit of the quotient.
  LSCHED_DEVICE void go_on() {
    const bool carries = rest >> 63 != 0;
    rest *= 2, below *= 2;
    if (carries || rest >= divisor) rest -= divisor, below += 1;
  }
};

/// Returns magnitude / divisor, rounded to nearest even, as bits of the format (see quotient_of_magnitude in
/// ops/elementwise/quotient.cc).
template <int Fraction>
LSCHED_DEVICE std::uint64_t of_magnitude(std::uint64_t magnitude, std::uint64_t divisor) {
  const int place = magnitude >> Fraction != 0 ? static_cast<int>(magnitude >> Fraction) : 1;
  const std::uint64_t significand = magnitude - (static_cast<std::uint64_t>(place - 1) << Fraction);
  const int least = Fraction + width_of(divisor) - width_of(significand);
  int shift = least < place - 1 ? least : place - 1;
  long_division quotient(significand, divisor);
  for (int i = 0; i < shift; ++i) quotient.go_on();
  if (shift < place - 1 && quotient.below >> Fraction == 0) quotient.go_on(), ++shift;
  return (static_cast<std::uint64_t>(place - 1 - shift) << Fraction) + rounded(quotient.below, quotient.rest, divisor);
}

template <class Format>
LSCHED_DEVICE typename Format::element of_element(typename Format::element a, std::uint64_t divisor) {
  using element = typename Format::element;
  using bits = std::conditional_t<sizeof(element) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(element) == 4, std::uint32_t, std::uint64_t>>;
  constexpr auto most = static_cast<bits>(static_cast<bits>(~bits{0}) >> 1);  // all bits except the sign
  constexpr auto infinity = static_cast<bits>(most >> Format::fraction << Format::fraction);
  constexpr auto quiet_nan = static_cast<bits>(infinity | bits{1} << (Format::fraction - 1));
  const auto all = bits_as<bits>(a);
  const auto magnitude = static_cast<bits>(all & most), sign = static_cast<bits>(all ^ magnitude);
  if (magnitude > infinity) return bits_as<element>(quiet_nan);
  if (magnitude == infinity) return a;
  return bits_as<element>(static_cast<bits>(sign | of_magnitude<Format::fraction>(magnitude, divisor)));
}

/// Divides a floating-point number by any divisor.
template <class Format>
LSCHED_DEVICE typename Format::element quotient(typename Format::element a, std::uint64_t divisor) {
  if (divisor > k_most_divisor<Format>) return of_element<Format>(a, divisor);
  return Format::narrow(Format::widen(a) / static_cast<typename Format::number>(divisor));
}

}  // namespace quotients
}  // namespace lsched
