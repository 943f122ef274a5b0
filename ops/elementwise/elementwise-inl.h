// The kernels themselves, written once over (operation, format) and compiled once for each SIMD target.
//
// To give the same bits on every target, nothing here depends on the width of a vector, on which NaN an
// instruction returns, or on which zero a minimum prefers. Nothing here calls into the standard library at
// run time either: an inline function compiled for one target could be linked in for all.

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "ops/elementwise/divide-inl.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/format-inl.h"
#include "ops/elementwise/sweep-inl.h"

#if defined(LSCHED_OPS_ELEMENTWISE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LSCHED_OPS_ELEMENTWISE_INL_H
#undef LSCHED_OPS_ELEMENTWISE_INL_H
#else
#define LSCHED_OPS_ELEMENTWISE_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lsched {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// ---- operations on lanes

struct sum {
  template <class D, class V = hn::VFromD<D>>
  static HWY_INLINE V apply(D lanes, V a, V b) {
    return canonical(lanes, hn::Add(a, b));
  }
};

struct prod {
  template <class D, class V = hn::VFromD<D>>
  static HWY_INLINE V apply(D lanes, V a, V b) {
    return canonical(lanes, hn::Mul(a, b));
  }
};

/// Highway leaves open which zero Min(-0, +0) returns, and Min of NaN altogether. Asking in both orders and
/// joining the bits changes nothing but zeros of unlike sign, of which the negative one wins.
struct min {
  template <class D, class V = hn::VFromD<D>>
  static HWY_INLINE V apply(D lanes, V a, V b) {
    if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
      const auto is_nan = hn::Or(hn::IsNaN(a), hn::IsNaN(b));
      return hn::IfThenElse(is_nan, quiet_nan(lanes), hn::Or(hn::Min(a, b), hn::Min(b, a)));
    } else {
      return hn::Min(a, b);
    }
  }
};

/// As `min`; here the positive zero wins.
struct max {
  template <class D, class V = hn::VFromD<D>>
  static HWY_INLINE V apply(D lanes, V a, V b) {
    if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
      const auto is_nan = hn::Or(hn::IsNaN(a), hn::IsNaN(b));
      return hn::IfThenElse(is_nan, quiet_nan(lanes), hn::And(hn::Max(a, b), hn::Max(b, a)));
    } else {
      return hn::Max(a, b);
    }
  }
};

struct land {
  template <class D, class V = hn::VFromD<D>>
  static HWY_INLINE V apply(D lanes, V a, V b) {
    const V zero = hn::Zero(lanes);
    return hn::IfThenZeroElse(hn::Or(hn::Eq(a, zero), hn::Eq(b, zero)), hn::Set(lanes, 1));
  }
};

struct lor {
  template <class D, class V = hn::VFromD<D>>
  static HWY_INLINE V apply(D lanes, V a, V b) {
    return hn::IfThenZeroElse(hn::Eq(hn::Or(a, b), hn::Zero(lanes)), hn::Set(lanes, 1));
  }
};

struct lxor {
  template <class D, class V = hn::VFromD<D>>
  static HWY_INLINE V apply(D lanes, V a, V b) {
    const V zero = hn::Zero(lanes);
    return hn::IfThenElseZero(hn::Xor(hn::Eq(a, zero), hn::Eq(b, zero)), hn::Set(lanes, 1));
  }
};

struct band {
  template <class D, class V = hn::VFromD<D>>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::And(a, b);
  }
};

struct bor {
  template <class D, class V = hn::VFromD<D>>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Or(a, b);
  }
};

struct bxor {
  template <class D, class V = hn::VFromD<D>>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Xor(a, b);
  }
};

// ---- kernels

template <class Operation, class Format>
struct reduce_step {
  const typename Format::element* a;
  const typename Format::element* b;
  typename Format::element* c;

  template <class D>
  HWY_INLINE void operator()(D lanes, std::size_t first) const {
    const auto lower = Format::load(lanes, a + first);
    const auto upper = Format::load(lanes, b + first);
    Format::store(lanes, Operation::apply(lanes, lower, upper), c + first);
  }
};

template <class Operation, class Format>
void reduce(const void* a, const void* b, void* c, std::size_t count) {
  using element = typename Format::element;
  const reduce_step<Operation, Format> step{static_cast<const element*>(a), static_cast<const element*>(b),
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

// ---- the table

// The table is complete by construction: `supports` alone decides whether an entry is a kernel or nullptr.

using integers = std::tuple<std::int8_t, std::uint8_t, std::int32_t, std::int64_t, std::uint64_t>;
static_assert(std::tuple_size_v<integers> == column_of(dtype::f16));

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
  } else {
    using element = std::tuple_element_t<column_of(Type), integers>;
    if constexpr (What == kernel::min || What == kernel::max) {
      return plain<element>{};
    } else if constexpr (What == kernel::prod && sizeof(element) == 1) {
      return wide_byte{};
    } else {
      return plain<std::make_unsigned_t<element>>{};
    }
  }
}

using operations = std::tuple<sum, prod, min, max, land, lor, lxor, band, bor, bxor>;
static_assert(std::tuple_size_v<operations> == k_all_reductions.size());

template <kernel What, dtype Type>
consteval reduce_fn reduce_of() {
  if constexpr (supports(What, Type)) {
    using operation = std::tuple_element_t<place_of(What), operations>;
    return &reduce<operation, decltype(format_of<What, Type>())>;
  } else {
    return nullptr;
  }
}

template <kernel What, dtype Type>
consteval kernel_fn reduce_call_of() {
  if constexpr (supports(What, Type)) {
    return &call_reduce<reduce_of<What, Type>()>;
  } else {
    return nullptr;
  }
}

template <dtype Type>
consteval divide_fn divide_of() {
  if constexpr (is_floating(Type)) {
    return &divide<decltype(format_of<kernel::prod, Type>())>;
  } else {
    return &divide_integers<std::tuple_element_t<column_of(Type), integers>>;
  }
}

template <std::size_t Row, std::size_t... Columns>
consteval auto row(std::index_sequence<Columns...>) {
  return std::array{reduce_of<k_all_reductions[Row], k_all_dtypes[Columns]>()...};
}

template <std::size_t Row, std::size_t... Columns>
consteval auto row_of_calls(std::index_sequence<Columns...>) {
  return std::array{reduce_call_of<k_all_reductions[Row], k_all_dtypes[Columns]>()...};
}

template <std::size_t... Rows, std::size_t... Columns>
consteval target_table table(std::index_sequence<Rows...>, std::index_sequence<Columns...> columns) {
  return {.reduce = {row<Rows>(columns)...},
          .reduce_calls = {row_of_calls<Rows>(columns)...},
          .divide = {divide_of<k_all_dtypes[Columns]>()...},
          .divide_calls = {&call_divide<divide_of<k_all_dtypes[Columns]>()>...}};
}

inline constexpr target_table k_table =
    table(std::make_index_sequence<k_all_reductions.size()>(), std::make_index_sequence<k_all_dtypes.size()>());

}  // namespace HWY_NAMESPACE
}  // namespace

template <>
inline constexpr const target_table* k_table_of_target<HWY_TARGET> = &HWY_NAMESPACE::k_table;

}  // namespace lsched
HWY_AFTER_NAMESPACE();

#endif  // LSCHED_OPS_ELEMENTWISE_INL_H
