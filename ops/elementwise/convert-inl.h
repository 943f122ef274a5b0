// The kernels of convert.h, written once over formats and compiled once for each SIMD target. Nothing here calls
// into the standard library at run time, as in elementwise-inl.h.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ops/elementwise/convert_table.h"
#include "ops/elementwise/format-inl.h"
#include "ops/elementwise/sweep-inl.h"

#if defined(LSCHED_OPS_CONVERT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LSCHED_OPS_CONVERT_INL_H
#undef LSCHED_OPS_CONVERT_INL_H
#else
#define LSCHED_OPS_CONVERT_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lsched {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// What is subnormal in bf16 is so in f32, too: without care it would be rounded twice on its way there. Beside 1.5 *
/// 2^-81 the last place of an f64 is bf16's least, 2^-133, so that the adder rounds, once.
template <class D>
HWY_INLINE hn::VFromD<D> round_subnormal_brain(D lanes, hn::VFromD<D> value) {
  const auto beside = hn::Set(lanes, 0x1.8p-81);
  const auto rounded = hn::CopySign(hn::Sub(hn::Add(value, beside), beside), value);
  return hn::IfThenElse(hn::Lt(hn::Abs(value), hn::Set(lanes, 0x1p-126)), rounded, value);
}

/// In `Wide`: double, or float where that gives the same bits.
template <class Wide, class From, class To>
struct convert_step {
  const typename From::element* input;
  Wide factor;
  typename To::element* output;

  template <class D>
  HWY_INLINE void operator()(D lanes, std::size_t first) const {
    auto value = hn::Mul(hn::Set(lanes, factor), load_as<From>(lanes, input + first));
    if constexpr (std::is_same_v<Wide, double> && std::is_same_v<To, brain>)
      value = round_subnormal_brain(lanes, value);
    store_as<To>(lanes, value, output + first);
  }
};

/// Whether f32 gives the same bits, in half the time: where no product loses a bit that the output could show. A power
/// of two loses none above the subnormals, which f16 does not have, and one that does not make smaller none at all.
template <class To>
bool is_narrow_enough(double factor) {
  const auto exponent = static_cast<int>(std::bit_cast<std::uint64_t>(factor) >> 52 & 0x7FF) - 1023;
  const bool is_power_of_two = std::bit_cast<std::uint64_t>(factor) << 12 == 0;
  const int least = std::is_same_v<To, brain> ? 0 : -126;
  return is_power_of_two && exponent >= least && exponent <= 127;
}

template <class From, class To>
void convert(const void* input, std::size_t count, double factor, void* output) {
  constexpr bool is_single = std::is_same_v<typename From::lane, float> && std::is_same_v<typename To::lane, float>;
  const auto* from = static_cast<const typename From::element*>(input);
  auto* to = static_cast<typename To::element*>(output);
  if constexpr (is_single) {
    if (is_narrow_enough<To>(factor)) {
      sweep<float>(count, convert_step<float, From, To>{from, static_cast<float>(factor), to});
      return;
    }
  }
  sweep<double>(count, convert_step<double, From, To>{from, factor, to});
}

template <class From>
consteval std::array<convert_fn, 4> converts_from() {
  return {&convert<From, half>, &convert<From, brain>, &convert<From, plain<float>>, &convert<From, plain<double>>};
}

inline constexpr convert_table k_convert_table{converts_from<half>(), converts_from<brain>(),
                                               converts_from<plain<float>>(), converts_from<plain<double>>()};

}  // namespace HWY_NAMESPACE
}  // namespace

template <>
inline constexpr const convert_table* k_convert_table_of_target<HWY_TARGET> = &HWY_NAMESPACE::k_convert_table;

}  // namespace lsched
HWY_AFTER_NAMESPACE();

#endif  // LSCHED_OPS_CONVERT_INL_H
