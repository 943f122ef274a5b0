// The elementwise kernels, written once over (operation, format) and compiled once for each SIMD target: Highway
// includes this file again and again. Dispatch is at the end.
//
// To give the same bits on every target, nothing here depends on the width of a vector, on which NaN an
// instruction returns, or on which zero a minimum prefers. Nothing here calls into the standard library at
// run time either: an inline function compiled for one target could be linked in for all.
#include "ops/elementwise/elementwise.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "ops/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/elementwise/elementwise.cc"
#include "hwy/foreach_target.h"
#include "ops/elementwise/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lsched {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// ---- reductions

/// Minimum or maximum of floating lanes. Highway leaves open which zero Min(-0, +0) returns, and Min of NaN altogether.
/// Asking in both orders and joining the bits changes nothing but zeros of unlike sign: of minima the negative one
/// wins, of maxima the positive one.
template <kernel What, class D, class V = hn::VFromD<D>>
HWY_INLINE V extreme_of_floats(D lanes, V a, V b) {
  const auto is_nan = hn::Or(hn::IsNaN(a), hn::IsNaN(b));
  if constexpr (What == kernel::min)
    return hn::IfThenElse(is_nan, quiet_nan(lanes), hn::Or(hn::Min(a, b), hn::Min(b, a)));
  else
    return hn::IfThenElse(is_nan, quiet_nan(lanes), hn::And(hn::Max(a, b), hn::Max(b, a)));
}

template <kernel What, class D, class V = hn::VFromD<D>>
HWY_INLINE V combine(D lanes, V a, V b) {
  constexpr bool is_extreme = What == kernel::min || What == kernel::max;
  const V zero = hn::Zero(lanes);
  if constexpr (What == kernel::sum) return canonical(lanes, hn::Add(a, b));
  if constexpr (What == kernel::prod) return canonical(lanes, hn::Mul(a, b));
  if constexpr (is_extreme && std::is_floating_point_v<hn::TFromD<D>>) return extreme_of_floats<What>(lanes, a, b);
  if constexpr (What == kernel::min) return hn::Min(a, b);
  if constexpr (What == kernel::max) return hn::Max(a, b);
  if constexpr (What == kernel::land)
    return hn::IfThenZeroElse(hn::Or(hn::Eq(a, zero), hn::Eq(b, zero)), hn::Set(lanes, 1));
  if constexpr (What == kernel::lor) return hn::IfThenZeroElse(hn::Eq(hn::Or(a, b), zero), hn::Set(lanes, 1));
  if constexpr (What == kernel::lxor)
    return hn::IfThenElseZero(hn::Xor(hn::Eq(a, zero), hn::Eq(b, zero)), hn::Set(lanes, 1));
  if constexpr (What == kernel::band) return hn::And(a, b);
  if constexpr (What == kernel::bor) return hn::Or(a, b);
  if constexpr (What == kernel::bxor) return hn::Xor(a, b);
}

template <kernel What, class Format>
struct reduce_step {
  const typename Format::element* a;
  const typename Format::element* b;
  typename Format::element* c;

  template <class D>
  HWY_INLINE void operator()(D lanes, std::size_t first) const {
    const auto lower = Format::load(lanes, a + first);
    const auto upper = Format::load(lanes, b + first);
    Format::store(lanes, combine<What>(lanes, lower, upper), c + first);
  }
};

template <kernel What, class Format>
void reduce(const void* a, const void* b, void* c, std::size_t count) {
  using element = typename Format::element;
  const reduce_step<What, Format> step{static_cast<const element*>(a), static_cast<const element*>(b),
                                       static_cast<element*>(c)};
  sweep<typename Format::lane>(count, step);
}

template <reduce_fn Run>
void call_reduce(const kernel_call& call) {
  Run(call.a, call.b, call.c, call.count);
}

template <divide_fn Run>
void call_divide(const kernel_call& call) {
  Run(call.a, call.c, call.count, call.with->front().integer());
}

// ---- conversion

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

// ---- the table

using integers = std::tuple<std::int8_t, std::uint8_t, std::int32_t, std::int64_t, std::uint64_t>;
static_assert(std::tuple_size_v<integers> == static_cast<std::size_t>(dtype::f16));
template <dtype Type>
using integer = std::tuple_element_t<static_cast<std::size_t>(Type), integers>;

/// Only min and max see the sign of an integer. All else is done unsigned: the bits are the same, wrapping
/// around is defined, and signed and unsigned types share their code.
template <kernel What, dtype Type>
consteval auto format_of() {
  if constexpr (Type == dtype::f16) {
    return half{};
  } else if constexpr (Type == dtype::bf16) {
    return brain{};
  } else if constexpr (Type == dtype::f32) {
    return plain<float>{};
  } else if constexpr (Type == dtype::f64) {
    return plain<double>{};
  } else if constexpr (What == kernel::min || What == kernel::max) {
    return plain<integer<Type>>{};
  } else if constexpr (What == kernel::prod && sizeof(integer<Type>) == 1) {
    return wide_byte{};
  } else {
    return plain<std::make_unsigned_t<integer<Type>>>{};
  }
}
template <kernel What, dtype Type>
using format = decltype(format_of<What, Type>());

/// The table is complete by construction: `supports` alone decides whether there is a kernel.
template <kernel What, dtype Type>
constexpr reduction_kernel reduction_of() {
  if constexpr (supports(What, Type))
    return {&reduce<What, format<What, Type>>, &call_reduce<&reduce<What, format<What, Type>>>};
  else
    return {};
}

template <dtype Type, std::size_t... Rows>
constexpr elementwise_kernels kernels_of(std::index_sequence<Rows...>) {
  elementwise_kernels all{.reductions = {reduction_of<reduction_in_row(Rows), Type>()...}};
  if constexpr (is_floating(Type)) {
    using from = format<kernel::sum, Type>;
    all.divide = &divide<from>;
    all.divide_call = &call_divide<&divide<from>>;
    all.convert_to = {&convert<from, half>, &convert<from, brain>, &convert<from, plain<float>>,
                      &convert<from, plain<double>>};
  } else {
    all.divide = &divide_integers<integer<Type>>;
    all.divide_call = &call_divide<&divide_integers<integer<Type>>>;
  }
  return all;
}

template <std::size_t... Columns>
constexpr elementwise_table table_of(std::index_sequence<Columns...>) {
  return {kernels_of<static_cast<dtype>(Columns)>(std::make_index_sequence<k_all_reductions.size()>())...};
}

const elementwise_table& table() {
  static constexpr elementwise_table all = table_of(std::make_index_sequence<k_all_dtypes.size()>());
  return all;
}

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lsched
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lsched {
namespace {

HWY_EXPORT(table);

/// Of the SIMD target that dispatch goes to.
const elementwise_kernels& kernels_of(dtype type) {
  return HWY_DYNAMIC_DISPATCH(table)()[static_cast<std::size_t>(type)];
}

}  // namespace

reduce_fn find_reduce(kernel what, dtype type) {
  if (!is_reduction(what) || what > kernel::bxor || type > dtype::f64) return nullptr;
  return kernels_of(type).reductions[row_of_reduction(what)].run;
}

kernel_fn find_elementwise(kernel what, dtype type) {
  const elementwise_kernels& all = kernels_of(type);
  return what == kernel::divide ? all.divide_call : all.reductions[row_of_reduction(what)].call;
}

divide_fn find_divide(dtype type) { return type > dtype::f64 ? nullptr : kernels_of(type).divide; }

convert_fn find_convert(dtype from, dtype to) {
  if (!is_floating(from) || !is_floating(to)) return nullptr;
  return kernels_of(from).convert_to[static_cast<std::size_t>(to) - static_cast<std::size_t>(dtype::f16)];
}

}  // namespace lsched
#endif
