// Division by a whole number, compiled once for each SIMD target; include it only from code that is itself written for
// ops that Highway re-includes. What it promises is in ops/kernel.h.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/elementwise/format-inl.h"
#include "ops/elementwise/quotient.h"
#include "ops/elementwise/sweep-inl.h"

#if defined(LSCHED_OPS_DIVIDE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LSCHED_OPS_DIVIDE_INL_H
#undef LSCHED_OPS_DIVIDE_INL_H
#else
#define LSCHED_OPS_DIVIDE_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lsched {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class Format>
struct divide_step {
  const typename Format::element* a;
  typename Format::element* c;
  typename Format::lane divisor;

  template <class D>
  HWY_INLINE void operator()(D lanes, std::size_t first) const {
    const auto quotient = hn::Div(Format::load(lanes, a + first), hn::Set(lanes, divisor));
    Format::store(lanes, canonical(lanes, quotient), c + first);
  }
};

/// Bits of an element's significand behind the point.
template <class Format>
inline constexpr int k_fraction_bits = std::is_same_v<Format, half>                   ? 10
                                       : std::is_same_v<Format, brain>                ? 7
                                       : std::is_same_v<typename Format::lane, float> ? 23
                                                                                      : 52;

/// The largest divisor by which lanes divide as promised. They must hold it; and where they are wider than elements, a
/// quotient that is no tie of the elements' must not be rounded to one. Dividend and divisor being integers times a
/// power of two, it is off a tie by a unit of the tie's last place (one more than the element has) over the divisor, or
/// by more, and rounding to a lane moves it by less than that if the divisor is below 2 to the bits that a lane has
/// more than an element.
template <class Format>
constexpr std::uint64_t most_divisor_of_lanes() {
  constexpr int lane_bits = std::numeric_limits<typename Format::lane>::digits;
  constexpr int more = lane_bits - k_fraction_bits<Format> - 1;
  return more == 0 ? std::uint64_t{1} << lane_bits : (std::uint64_t{1} << more) - 1;
}

template <class Format>
void divide(const void* a, void* c, std::size_t count, std::uint64_t divisor) {
  using element = typename Format::element;
  using lane = typename Format::lane;
  if (divisor > most_divisor_of_lanes<Format>())
    return divide_floats_exactly<bits_type<element>, k_fraction_bits<Format>>(a, c, count, divisor);
  sweep<lane>(
      count, divide_step<Format>{static_cast<const element*>(a), static_cast<element*>(c), static_cast<lane>(divisor)});
}

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lsched
HWY_AFTER_NAMESPACE();

#endif  // LSCHED_OPS_DIVIDE_INL_H
