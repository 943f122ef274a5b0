// Computes c[i] = x a[i] in another format. The results have the same bits as those of the host kernels (find_convert
// in ops/elementwise/elementwise.h).
#include <cstdint>
#include <type_traits>

#include "offload/cuda/kernels/formats.h"
#include "offload/cuda/kernels/sweep.h"

namespace lsched {
namespace conversions {

/// Rounds a value that is subnormal in bf16. The value is also subnormal in f32, so a conversion through f32 would
/// round twice. The addition of 1.5 * 2^-81 rounds only once, because the last place of the f64 sum is 2^-133, the
/// smallest bf16 subnormal.
LSCHED_DEVICE double round_subnormal_brain(double value) {
  constexpr std::uint64_t sign = std::uint64_t{1} << 63;
  const double magnitude = bits_as<double>(bits_as<std::uint64_t>(value) & ~sign);
  if (!(magnitude < 0x1p-126)) return value;
  const double rounded = (magnitude + 0x1.8p-81) - 0x1.8p-81;
  return bits_as<double>(bits_as<std::uint64_t>(rounded) | (bits_as<std::uint64_t>(value) & sign));
}

/// Returns true if f32 arithmetic gives the same bits as f64 arithmetic. This holds if no product loses bits that
/// affect the output. The factor must be a power of two, so that a product loses bits only if it is subnormal in f32.
/// For an f32 output, such a product is still rounded only once. For an f16 output, such a product is rounded to zero
/// in any case. For a bf16 output, the factor must also be at least 1, so that no product loses bits.
template <class To>
LSCHED_DEVICE bool is_narrow_enough(double factor) {
  const auto bits = bits_as<std::uint64_t>(factor);
  const int exponent = static_cast<int>(bits >> 52 & 0x7FF) - 1023;
  const int least = std::is_same_v<To, brain> ? 0 : -126;
  return bits << 12 == 0 && exponent >= least && exponent <= 127;
}

template <class From, class To>
LSCHED_DEVICE void convert(const device_arguments& with) {
  using from = typename From::element;
  using to = typename To::element;
  const double factor = with.x;
  if constexpr (sizeof(typename From::number) == 4 && sizeof(typename To::number) == 4) {
    if (is_narrow_enough<To>(factor)) {
      const auto single = static_cast<float>(factor);
      map_one<from, to>(with, [=](from a) { return To::narrow(single * From::widen(a)); });
      return;
    }
  }
  map_one<from, to>(with, [=](from a) {
    double value = factor * static_cast<double>(From::widen(a));
    if constexpr (std::is_same_v<To, brain>) value = round_subnormal_brain(value);
    return narrow_double<To>(value);
  });
}

}  // namespace conversions
}  // namespace lsched

#define LSCHED_CONVERSION(from, to)                                                 \
  LSCHED_KERNEL(lsched_convert_##from##_##to) {                                     \
    lsched::conversions::convert<lsched::format_##from, lsched::format_##to>(with); \
  }

LSCHED_OF_FLOATS(LSCHED_CONVERSION, f16)
LSCHED_OF_FLOATS(LSCHED_CONVERSION, bf16)
LSCHED_OF_FLOATS(LSCHED_CONVERSION, f32)
LSCHED_OF_FLOATS(LSCHED_CONVERSION, f64)
