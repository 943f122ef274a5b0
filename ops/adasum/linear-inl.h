// The kernels of linear.h, written once over formats and compiled once for each SIMD target.
//
// Nothing here calls into the standard library at run time, as in elementwise-inl.h.

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "ops/adasum/adasum.h"
#include "ops/adasum/dots-inl.h"
#include "ops/adasum/linear_table.h"
#include "ops/elementwise/sweep-inl.h"

#include "hwy/cache_control.h"

#if defined(LSCHED_OPS_LINEAR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LSCHED_OPS_LINEAR_INL_H
#undef LSCHED_OPS_LINEAR_INL_H
#else
#define LSCHED_OPS_LINEAR_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lsched {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// ---- kernels

template <class Format>
void dot_norms(const void* a, const void* b, std::size_t count, double* sums) {
  using element = typename Format::element;
  const element* lower = static_cast<const element*>(a);
  const element* upper = static_cast<const element*>(b);
  double dot = 0, norm_a = 0, norm_b = 0;
  for (std::size_t done = 0; done < count; done += k_dot_block) {
    const std::size_t next = done + ahead_of(done, count);
    const row_fetch<Format> soon{lower + next, upper + next};
    add_dots_of_block<Format, triangle<2>>({lower + done, upper + done}, soon, block_at(done, count),
                                           {&norm_a, &dot, &norm_b});
  }
  make_canonical(dot), make_canonical(norm_a), make_canonical(norm_b);
  sums[0] = dot, sums[1] = norm_a, sums[2] = norm_b;
}

/// Fetches what a sweep will come to. Doubles come fast enough by themselves: nothing is left to hide behind.
template <class Element>
HWY_INLINE void fetch_ahead(const Element* from, std::size_t first, std::size_t count) {
  constexpr std::size_t ahead = 512;
  if constexpr (sizeof(Element) < sizeof(double)) hwy::Prefetch(from + (first + ahead < count ? first + ahead : first));
}

/// Coefficients with which f32 is wide enough: `greatest` times the largest element, times 2^-shift, is half of what
/// f32 can hold, and of the smallest products no bit is lost that the element could show.
template <class Format>
struct moderate {
  static constexpr bool exists = sizeof(typename Format::element) < sizeof(float);
  static constexpr double shift_factor = std::is_same_v<Format, brain> ? 0x1p10 : 1.0;
  static constexpr double greatest = std::is_same_v<Format, brain> ? 0x1p9 : 0x1p64;
  static constexpr double smallest = 0x1p-100;

  static bool has(double x) {
    const double magnitude = x < 0 ? -x : x;
    return x == 0 || (magnitude >= smallest && magnitude <= greatest);
  }
};

/// In `Wide`: double, or float, then on coefficients that have been divided by `shift_factor`.
template <class Wide, class Format>
struct scaled_add_of {
  Wide x;
  const typename Format::element* a;
  Wide y;
  const typename Format::element* b;
  typename Format::element* c;
  std::size_t count;

  template <class D>
  HWY_INLINE void operator()(D lanes, std::size_t first) const {
    fetch_ahead(a, first, count);
    fetch_ahead(b, first, count);
    const auto lower = hn::Mul(hn::Set(lanes, x), load_as<Format>(lanes, a + first));
    const auto upper = hn::Mul(hn::Set(lanes, y), load_as<Format>(lanes, b + first));
    auto sum = hn::Add(lower, upper);
    if constexpr (std::is_same_v<Wide, float> && moderate<Format>::shift_factor != 1)
      sum = hn::Mul(sum, hn::Set(lanes, static_cast<float>(moderate<Format>::shift_factor)));
    store_as<Format>(lanes, sum, c + first);
  }
};

template <class Format>
void scaled_add(double x, const void* a, double y, const void* b, void* c, std::size_t count) {
  using element = typename Format::element;
  const element* lower = static_cast<const element*>(a);
  const element* upper = static_cast<const element*>(b);
  element* result = static_cast<element*>(c);
  using limits = moderate<Format>;
  if constexpr (limits::exists) {
    if (limits::has(x) && limits::has(y)) {
      const auto narrow = [](double factor) HWY_ATTR { return static_cast<float>(factor / limits::shift_factor); };
      sweep<float>(count, scaled_add_of<float, Format>{narrow(x), lower, narrow(y), upper, result, count});
      return;
    }
  }
  sweep<double>(count, scaled_add_of<double, Format>{x, lower, y, upper, result, count});
}

/// The sums of what is null are zeros, and they are not null: messages hold the sums of several vectors, and adasum
/// asks its operands which of them is null.
template <class Format>
void call_dot_norms(const kernel_call& call) {
  const bool is_null = call.a == nullptr || call.b == nullptr;
  double sums[k_dot_sums];
  dot_norms<Format>(call.a, call.b, is_null ? 0 : call.count, sums);
  std::memcpy(call.c, sums, sizeof sums);
}

template <class Format>
void call_adasum(const kernel_call& call) {
  double sums[k_dot_sums];
  std::memcpy(sums, call.s, sizeof sums);
  const auto [x, y] = adasum_coefficients_of(sums);
  scaled_add<Format>(x, call.a, y, call.b, call.c, call.count);
}

// ---- the table

template <class Format>
consteval linear_kernels kernels_of_format() {
  return {&dot_norms<Format>, &scaled_add<Format>, &call_dot_norms<Format>, &call_adasum<Format>};
}

inline constexpr linear_table k_linear_table{kernels_of_format<half>(), kernels_of_format<brain>(),
                                             kernels_of_format<plain<float>>(), kernels_of_format<plain<double>>()};

}  // namespace HWY_NAMESPACE
}  // namespace

template <>
inline constexpr const linear_table* k_linear_table_of_target<HWY_TARGET> = &HWY_NAMESPACE::k_linear_table;

}  // namespace lsched
HWY_AFTER_NAMESPACE();

#endif  // LSCHED_OPS_LINEAR_INL_H
