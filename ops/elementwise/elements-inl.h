// Formats (conversions between elements in memory and SIMD lanes), loops over elements (sweep), and division by a whole
// number. This file is compiled once for each SIMD target. Include this file only from files that Highway re-includes
// for each target.
//
// A format defines an `element` (the type in memory), a `lane` (the type of arithmetic), and the functions load() and
// store() for any vector of lanes. For f16 and bf16, load() is exact, and store() rounds to nearest even. These
// conversions are implemented here because Highway's portable conversions truncate. Highway's conversions are used only
// for f16 on hardware with conversion instructions, because these instructions round.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/elementwise/quotient.h"

#include "hwy/highway.h"

#if defined(LSCHED_OPS_ELEMENTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LSCHED_OPS_ELEMENTS_INL_H
#undef LSCHED_OPS_ELEMENTS_INL_H
#else
#define LSCHED_OPS_ELEMENTS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lsched {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <std::size_t Bytes>
using bits_of_size =
    std::conditional_t<Bytes == 2, std::uint16_t, std::conditional_t<Bytes == 4, std::uint32_t, std::uint64_t>>;

/// The unsigned integer type of the same size as `Number`. `Number` is the type of an element or of a lane.
template <class Number>
using bits_type = bits_of_size<sizeof(Number)>;

/// Returns the positive quiet NaN without payload. (Highway's own NaN has all bits of the payload set.)
template <class D>
HWY_INLINE hn::VFromD<D> quiet_nan(D lanes) {
  constexpr bool is_single = sizeof(hn::TFromD<D>) == sizeof(float);
  constexpr std::uint64_t bits = is_single ? 0x7FC00000u : 0x7FF8000000000000u;
  const hn::RebindToUnsigned<D> unsigned_lanes;
  return hn::BitCast(lanes, hn::Set(unsigned_lanes, static_cast<hn::TFromD<decltype(unsigned_lanes)>>(bits)));
}

/// Replaces every NaN by quiet_nan(). If both operands of an operation are NaN, the payload of the operation's result
/// depends on the instruction and on the order of the operands. Compilers can change this order.
template <class D, class V = hn::VFromD<D>>
HWY_INLINE V canonical(D lanes, V value) {
  if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
    return hn::IfThenElse(hn::IsNaN(value), quiet_nan(lanes), value);
  } else {
    return value;
  }
}

/// A format whose elements have the same type as the lanes.
template <class Element>
struct plain {
  using element = Element;
  using lane = Element;

  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D lanes, const element* from) {
    return hn::LoadU(lanes, from);
  }
  template <class D>
  static HWY_INLINE void store(D lanes, hn::VFromD<D> value, element* to) {
    hn::StoreU(value, lanes, to);
  }
};

/// The format of 8-bit integers that are multiplied in 16-bit lanes. Products need wider lanes, because no instruction
/// set multiplies bytes. store() wraps around.
struct wide_byte {
  using element = std::uint8_t;
  using lane = std::uint16_t;

  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D lanes, const element* from) {
    return hn::PromoteTo(lanes, hn::LoadU(hn::Rebind<element, D>(), from));
  }
  template <class D>
  static HWY_INLINE void store(D, hn::VFromD<D> value, element* to) {
    const hn::Rebind<element, D> bytes;
    hn::StoreU(hn::TruncateTo(bytes, value), bytes, to);
  }
};

/// bf16, the upper half of an f32.
struct brain {
  using element = std::uint16_t;
  using lane = float;

  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D lanes, const element* from) {
    const hn::Rebind<std::uint32_t, D> bits;
    const auto narrow = hn::LoadU(hn::Rebind<element, D>(), from);
    return hn::BitCast(lanes, hn::ShiftLeft<16>(hn::PromoteTo(bits, narrow)));
  }

  /// Rounds to nearest even. The lower 16 bits of the f32 are dropped, the upper 16 bits are kept. The code adds
  /// 0x7FFF, and 1 more if the kept half is odd. This sum carries into the kept half if and only if the value must be
  /// rounded up. For values that are too large for bf16, the carry gives infinity. `value` must contain no NaN other
  /// than the canonical NaN, whose dropped half is zero.
  template <class D>
  static HWY_INLINE void store(D, hn::VFromD<D> value, element* to) {
    const hn::Rebind<std::uint32_t, D> bits;
    const hn::Rebind<std::int32_t, D> signed_bits;
    const hn::Rebind<element, D> narrow;
    const auto exact = hn::BitCast(bits, value);
    const auto is_odd = hn::And(hn::ShiftRight<16>(exact), hn::Set(bits, 1u));
    const auto rounded = hn::Add(hn::Add(exact, hn::Set(bits, 0x7FFFu)), is_odd);
    const auto upper = hn::BitCast(signed_bits, hn::ShiftRight<16>(rounded));
    hn::StoreU(hn::DemoteTo(narrow, upper), narrow, to);
  }
};

/// IEEE binary16 by integer arithmetic, for targets without conversion instructions.
struct portable_half {
  using element = std::uint16_t;
  using lane = float;

  /// Shifts the 10 bits of the fraction to the top of the 23 bits of the f32 fraction. Adds the difference of the
  /// biases, 112, to the exponent. For infinity and NaN, 112 is added twice. A subnormal is first converted to 2^-14 *
  /// (1 + fraction). The exact subtraction of 2^-14 then gives its value.
  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D lanes, const element* from) {
    const hn::Rebind<std::uint32_t, D> bits;
    const auto half = hn::PromoteTo(bits, hn::LoadU(hn::Rebind<element, D>(), from));
    const auto magnitude = hn::And(half, hn::Set(bits, 0x7FFFu));
    const auto sign = hn::ShiftLeft<16>(hn::Xor(half, magnitude));
    const auto bias = hn::Set(bits, 112u << 23);
    const auto normal = hn::Add(hn::ShiftLeft<13>(magnitude), bias);
    const auto special = hn::Add(normal, bias);
    const auto shifted = hn::BitCast(lanes, hn::Add(normal, hn::Set(bits, 1u << 23)));
    const auto subnormal = hn::BitCast(bits, hn::Sub(shifted, hn::Set(lanes, 0x1p-14F)));
    const auto is_subnormal = hn::Lt(magnitude, hn::Set(bits, 0x0400u));
    const auto is_special = hn::Gt(magnitude, hn::Set(bits, 0x7BFFu));
    const auto finite = hn::IfThenElse(is_subnormal, subnormal, normal);
    return hn::BitCast(lanes, hn::Or(sign, hn::IfThenElse(is_special, special, finite)));
  }

  /// Normal results are rounded as in `brain`. A subnormal result is rounded by the addition 0.5 + x: the last place of
  /// this sum is 2^-24, the unit of f16's subnormals. For values from 65520 up to 2^16, the carry of the rounding gives
  /// infinity. Values of at least 2^16 are set to infinity. `value` must contain no NaN other than the canonical NaN.
  template <class D>
  static HWY_INLINE void store(D lanes, hn::VFromD<D> value, element* to) {
    const hn::Rebind<std::uint32_t, D> bits;
    const hn::Rebind<std::int32_t, D> signed_bits;
    const hn::Rebind<element, D> narrow;
    const auto exact = hn::BitCast(bits, value);
    const auto magnitude = hn::And(exact, hn::Set(bits, 0x7FFFFFFFu));
    const auto sign = hn::ShiftRight<16>(hn::Xor(exact, magnitude));
    const auto is_odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(bits, 1u));
    const auto rebiased = hn::Sub(magnitude, hn::Set(bits, (112u << 23) - 0x0FFFu));
    const auto normal = hn::ShiftRight<13>(hn::Add(rebiased, is_odd));
    const auto sum = hn::Add(hn::BitCast(lanes, magnitude), hn::Set(lanes, 0.5F));
    const auto subnormal = hn::Sub(hn::BitCast(bits, sum), hn::Set(bits, 126u << 23));
    const auto is_nan = hn::Gt(magnitude, hn::Set(bits, 0x7F800000u));
    const auto special = hn::IfThenElse(is_nan, hn::Set(bits, 0x7E00u), hn::Set(bits, 0x7C00u));
    const auto is_special = hn::Gt(magnitude, hn::Set(bits, (143u << 23) - 1u));
    const auto is_subnormal = hn::Lt(magnitude, hn::Set(bits, 113u << 23));
    const auto finite = hn::IfThenElse(is_subnormal, subnormal, normal);
    const auto result = hn::Or(sign, hn::IfThenElse(is_special, special, finite));
    hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(signed_bits, result)), narrow, to);
  }
};

/// IEEE binary16 by the hardware's conversions (F16C, AVX-512), which round to nearest even.
struct native_half {
  using element = std::uint16_t;
  using lane = float;

  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D lanes, const element* from) {
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::PromoteTo(lanes, hn::BitCast(half, hn::LoadU(hn::Rebind<element, D>(), from)));
  }
  template <class D>
  static HWY_INLINE void store(D, hn::VFromD<D> value, element* to) {
    const hn::Rebind<hwy::float16_t, D> half;
    const hn::Rebind<element, D> narrow;
    hn::StoreU(hn::BitCast(narrow, hn::DemoteTo(half, value)), narrow, to);
  }
};

// In Highway, better targets have lower numbers.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
using half = native_half;
#else
using half = portable_half;
#endif

// ---- elements in the format's own lanes, or in lanes of f64

/// Loads elements into the format's own lanes, or into lanes of f64. Both conversions are exact.
template <class Format, class D>
HWY_INLINE hn::VFromD<D> load_as(D lanes, const typename Format::element* from) {
  if constexpr (std::is_same_v<hn::TFromD<D>, typename Format::lane>) {
    return Format::load(lanes, from);
  } else {
    return hn::PromoteTo(lanes, Format::load(hn::Rebind<float, D>(), from));
  }
}

/// Rounds f64 to f32, to nearest even. (Highway's scalar code returns the largest finite value instead of infinity.)
template <class D>
HWY_INLINE hn::VFromD<hn::Rebind<float, D>> to_single(D lanes, hn::VFromD<D> value) {
  const hn::Rebind<float, D> singles;
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  double wide[hn::MaxLanes(lanes)];
  float narrow[hn::MaxLanes(lanes)];
  hn::StoreU(value, lanes, wide);
  for (std::size_t i = 0; i < hn::MaxLanes(lanes); ++i) narrow[i] = static_cast<float>(wide[i]);
  return hn::LoadU(singles, narrow);
#else
  (void)lanes;
  return hn::DemoteTo(singles, value);
#endif
}

/// Truncates a value to the 24 bits of an f32 significand (round to odd): if any dropped bit is set, sets the last kept
/// bit. A second rounding, to nearest even and fewer than 24 bits, then gives the same bits as a direct rounding of the
/// value. Infinities and NaNs stay infinities and NaNs.
template <class D>
HWY_INLINE hn::VFromD<D> cut_to_odd(D lanes, hn::VFromD<D> value) {
  const hn::RebindToUnsigned<D> bits;
  const auto cut_off = hn::Set(bits, (std::uint64_t{1} << 29) - 1);
  const auto exact = hn::BitCast(bits, value);
  const auto carry = hn::Add(hn::And(exact, cut_off), cut_off);
  return hn::BitCast(lanes, hn::AndNot(cut_off, hn::Or(exact, carry)));
}

/// Stores the format's own lanes, or lanes of f64, as elements. Each value is rounded only once.
template <class Format, class D>
HWY_INLINE void store_as(D lanes, hn::VFromD<D> value, typename Format::element* to) {
  if constexpr (std::is_same_v<hn::TFromD<D>, typename Format::lane>) {
    Format::store(lanes, canonical(lanes, value), to);
  } else {
    const hn::Rebind<float, D> singles;
    if constexpr (sizeof(typename Format::element) < sizeof(float)) value = cut_to_odd(lanes, value);
    Format::store(singles, canonical(singles, to_single(lanes, value)), to);
  }
}

// ---- sweeps

/// Processes the elements after the last full vector. Uses narrower vectors whose widths are powers of two, each width
/// at most once, widest first. So no access leaves the buffers.
template <std::size_t Width, class Lane, class Step>
HWY_INLINE void sweep_rest(std::size_t done, std::size_t count, const Step& step) {
  if constexpr (Width > 0) {
    const hn::CappedTag<Lane, Width> lanes;
    if (count - done >= hn::Lanes(lanes)) {
      step(lanes, done);
      done += hn::Lanes(lanes);
    }
    sweep_rest<Width / 2, Lane>(done, count, step);
  }
}

/// Splits the elements [0, count) into SIMD vectors, and calls step(lanes, first) for each vector. `first` is the index
/// of the vector's first element.
template <class Lane, class Step>
HWY_INLINE void sweep(std::size_t count, const Step& step) {
  const hn::ScalableTag<Lane> lanes;
  const std::size_t width = hn::Lanes(lanes);
  std::size_t done = 0;
  for (; count - done >= 4 * width; done += 4 * width) {
    step(lanes, done);
    step(lanes, done + width);
    step(lanes, done + 2 * width);
    step(lanes, done + 3 * width);
  }
  for (; count - done >= width; done += width) step(lanes, done);
  sweep_rest<hn::MaxLanes(hn::ScalableTag<Lane>()) / 2, Lane>(done, count, step);
}

// ---- division, with the guarantees of ops/kernel.h

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

template <class Format>
inline constexpr int k_fraction_bits = std::is_same_v<Format, half>                   ? 10
                                       : std::is_same_v<Format, brain>                ? 7
                                       : std::is_same_v<typename Format::lane, float> ? 23
                                                                                      : 52;

/// Returns the largest divisor for which a division in lanes fulfils the guarantees of ops/kernel.h.
///
/// The lane type must represent the divisor exactly. If lanes are wider than elements, the quotient is rounded twice. A
/// tie is the midpoint between two adjacent numbers of the element's type. A quotient that is not a tie must not become
/// a tie in the first rounding. Dividend and divisor are integers times a power of two. So a quotient that is not a tie
/// differs from every tie by at least u / divisor, where u is the unit in the last place of the tie. (A tie has one bit
/// more than an element.) If a lane has k more bits than an element, the first rounding changes the quotient by less
/// than u / divisor, provided that divisor < 2^k.
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

#endif  // LSCHED_OPS_ELEMENTS_INL_H
