#include "ops/elementwise/quotient.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace lsched {
namespace {

__extension__ using wide = unsigned __int128;

/// Returns the quotient rounded to nearest even.
template <class Unsigned>
Unsigned nearest_quotient(Unsigned dividend, Unsigned divisor) {
  const Unsigned below = dividend / divisor, rest = dividend % divisor, missing = divisor - rest;
  return below + (rest > missing || (rest == missing && below % 2 != 0) ? 1 : 0);
}

/// Returns magnitude / divisor, rounded to nearest even, as bits of the format. `magnitude` is the dividend without its
/// sign. A number has the value significand * 2^(place - 1), in units of the smallest subnormal. Its bits are (place -
/// 1) * 2^Fraction + significand. The two terms of the bits are added, and not combined by a bitwise or. This is
/// necessary because the implicit leading bit, or a carry from rounding, must increment the exponent field. The
/// dividend's significand is shifted up until the quotient is normalized (Fraction + 1 bits), or until the quotient has
/// the exponent of subnormals.
template <class Bits, int Fraction>
Bits quotient_of_magnitude(Bits magnitude, std::uint64_t divisor) {
  const int place = std::max(static_cast<int>(magnitude >> Fraction), 1);
  const std::uint64_t significand = magnitude - (static_cast<std::uint64_t>(place - 1) << Fraction);
  int shift = Fraction + static_cast<int>(std::bit_width(divisor)) - static_cast<int>(std::bit_width(significand));
  if (static_cast<wide>(significand) << shift < static_cast<wide>(divisor) << Fraction) ++shift;
  shift = std::min(shift, place - 1);
  const wide nearest = nearest_quotient<wide>(static_cast<wide>(significand) << shift, divisor);
  return static_cast<Bits>((static_cast<std::uint64_t>(place - 1 - shift) << Fraction) +
                           static_cast<std::uint64_t>(nearest));
}

}  // namespace

template <class Integer>
void divide_integers(const void* a, void* c, std::size_t count, std::uint64_t divisor) {
  const auto* from = static_cast<const Integer*>(a);
  auto* to = static_cast<Integer*>(c);
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<std::uint64_t>(from[i]);  // signed types are converted modulo 2^64
    const bool is_negative = from[i] < 0;
    const std::uint64_t nearest = nearest_quotient(is_negative ? -value : value, divisor);
    to[i] = static_cast<Integer>(is_negative ? -nearest : nearest);
  }
}

template <class Bits, int Fraction>
void divide_floats_exactly(const void* a, void* c, std::size_t count, std::uint64_t divisor) {
  constexpr auto most = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);  // all bits except the sign
  constexpr auto infinity = static_cast<Bits>(most >> Fraction << Fraction);
  constexpr auto quiet_nan = static_cast<Bits>(infinity | Bits{1} << (Fraction - 1));
  const auto* from = static_cast<const std::byte*>(a);
  auto* to = static_cast<std::byte*>(c);
  for (std::size_t i = 0; i < count; ++i, from += sizeof(Bits), to += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, from, sizeof bits);
    const auto magnitude = static_cast<Bits>(bits & most), sign = static_cast<Bits>(bits ^ magnitude);
    if (magnitude < infinity)
      bits = static_cast<Bits>(sign | quotient_of_magnitude<Bits, Fraction>(magnitude, divisor));
    else if (magnitude > infinity)
      bits = quiet_nan;
    std::memcpy(to, &bits, sizeof bits);
  }
}

template void divide_integers<std::int8_t>(const void*, void*, std::size_t, std::uint64_t);
template void divide_integers<std::uint8_t>(const void*, void*, std::size_t, std::uint64_t);
template void divide_integers<std::int32_t>(const void*, void*, std::size_t, std::uint64_t);
template void divide_integers<std::int64_t>(const void*, void*, std::size_t, std::uint64_t);
template void divide_integers<std::uint64_t>(const void*, void*, std::size_t, std::uint64_t);
template void divide_floats_exactly<std::uint16_t, 10>(const void*, void*, std::size_t, std::uint64_t);
template void divide_floats_exactly<std::uint16_t, 7>(const void*, void*, std::size_t, std::uint64_t);
template void divide_floats_exactly<std::uint32_t, 23>(const void*, void*, std::size_t, std::uint64_t);
template void divide_floats_exactly<std::uint64_t, 52>(const void*, void*, std::size_t, std::uint64_t);

}  // namespace lsched
