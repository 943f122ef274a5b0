// The elementwise kernels, as templates for all operations and formats. Highway includes this file once for each SIMD
// target. The dispatch to a target is at the end.
//
// Every target must give the same bits. So results must not depend on the width of a vector, or on the NaN that an
// instruction returns. They must also not depend on the zero that a minimum instruction returns for zeros of different
// sign. The code must not call the standard library at run time. The reason is that the linker keeps only one copy of
// an inline function. This copy might be compiled for a target that the CPU does not support.
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

/// Returns the minimum or maximum of floating lanes. Highway specifies neither which zero Min(-0, +0) returns nor the
/// result for NaN. So the result is computed for both orders of the operands, and the bits of the two results are
/// combined. The minimum of zeros of different sign is -0, and the maximum is +0.
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

/// Rounds values that are subnormal in bf16. These values are also subnormal in f32, so a conversion by way of f32
/// would round twice. The addition of 1.5 * 2^-81 rounds only once, because the last place of the f64 sum is 2^-133,
/// the smallest subnormal of bf16.
template <class D>
HWY_INLINE hn::VFromD<D> round_subnormal_brain(D lanes, hn::VFromD<D> value) {
  const auto beside = hn::Set(lanes, 0x1.8p-81);
  const auto rounded = hn::CopySign(hn::Sub(hn::Add(value, beside), beside), value);
  return hn::IfThenElse(hn::Lt(hn::Abs(value), hn::Set(lanes, 0x1p-126)), rounded, value);
}

/// The step of a sweep that converts elements in lanes of type `Wide`. `Wide` is double, or float if float lanes give
/// the same bits.
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

/// Returns true if products in f32 give the same bits as products in f64. Products in f32 take half the time, but are
/// allowed only if no product loses a bit that could change the output. If the factor is a power of two, a product
/// loses bits only if the product is a subnormal of f32. For f16 outputs, all such products round to zero. For f32
/// outputs, the product is the output, so it is rounded only once. For bf16 outputs, the factor must be at least 1, so
/// no bit is lost.
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

/// Returns the format for a kernel and a dtype. Among the integer kernels, only min and max depend on the sign. All
/// other kernels use unsigned types: the bits are the same, overflow is defined, and signed and unsigned types share
/// code.
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

/// Returns the kernel functions if `supports` returns true, else null pointers.
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

/// Returns the kernels of the SIMD target that dispatch selects.
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
