// The kernels of adasum.h, as templates for all formats. Highway includes this file once for each SIMD target. The code
// at the end of the file selects a target and computes the coefficients.
//
// Every target must give the same bits. So the number of lanes (partial sums of a dot product) is fixed (adasum.h) and
// does not depend on the width of SIMD vectors. Targets with narrow vectors use several vectors for the lanes, or
// several passes over a block. If products are exact, a fused multiply-add gives the same bits as two instructions, so
// targets may use it. Inexact products must never be fused, because some targets have no fused instruction. The code
// must not call the standard library at run time (elementwise.cc explains why).
#include "ops/adasum/adasum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ops/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/adasum/adasum.cc"
#include "hwy/foreach_target.h"
#include "ops/elementwise/elements-inl.h"

#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace lsched {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// ---- dots of one block

/// Type and number of the lanes in which dots (dot products) of a format are summed.
template <class Format>
struct dot_sums {
  static constexpr bool is_half = std::is_same_v<Format, half>;
  using lane = std::conditional_t<is_half, float, double>;
  static constexpr std::size_t lanes = is_half ? 32 : 16;
  static constexpr bool has_exact_products = !std::is_same_v<typename Format::lane, double>;
};
static_assert(k_dot_block % 32 == 0);

/// Number of inputs (a and b), and number of dots: a.a, a.b and b.b.
inline constexpr std::size_t k_inputs = 2, k_dots = 3;

/// Maximum number of SIMD vectors of partial sums for each dot, so that all sums and operands fit into registers.
inline constexpr std::size_t k_registers_for_dot = 4;

/// Adds lanes [Half, 2 Half) to lanes [0, Half), then halves `Half`, until one lane is left. Returns the last lane.
template <std::size_t Half>
HWY_INLINE double fold(double* sums) {
  if constexpr (Half == 0) {
    return sums[0];
  } else {
    const hn::CappedTag<double, Half> lanes;
    for (std::size_t i = 0; i < Half; i += hn::Lanes(lanes))
      hn::Store(hn::Add(hn::Load(lanes, sums + i), hn::Load(lanes, sums + i + Half)), lanes, sums + i);
    return fold<Half / 2>(sums);
  }
}

HWY_INLINE double sum_of_lanes(double* sums) { return fold<8>(sums); }

HWY_INLINE double sum_of_lanes(float* sums) {
  HWY_ALIGN double wide[16];
  const hn::CappedTag<double, 16> lanes;
  const hn::Rebind<float, decltype(lanes)> singles;
  for (std::size_t i = 0; i < 16; i += hn::Lanes(lanes)) {
    const auto both = hn::Add(hn::Load(singles, sums + i), hn::Load(singles, sums + i + 16));
    hn::Store(hn::PromoteTo(lanes, both), lanes, wide + i);
  }
  return sum_of_lanes(wide);
}

/// `Width` SIMD vectors of partial sums for each dot. The vectors hold consecutive lanes. The first of these lanes need
/// not be lane 0.
template <class Format, class D, std::size_t Width>
struct partial_sums {
  using vector = hn::VFromD<D>;
  vector sums[k_dots][Width];

  // GCC would compile an implicit constructor for the weakest target, and could not inline code of other targets into
  // this constructor.
  HWY_INLINE partial_sums() {}

  HWY_INLINE void clear() {
    HWY_UNROLL(16)
    for (std::size_t p = 0; p < k_dots; ++p)
      for (vector& sum : sums[p]) sum = hn::Zero(D());
  }

  /// Adds the products of consecutive elements, beginning with element i, to the lanes of this object.
  HWY_INLINE void add(const typename Format::element* const (&inputs)[k_inputs], std::size_t i) {
    const D lanes;
    HWY_UNROLL(4)
    for (std::size_t v = 0; v < Width; ++v) {
      const vector a = load_as<Format>(lanes, inputs[0] + i + v * hn::Lanes(lanes));
      const vector b = load_as<Format>(lanes, inputs[1] + i + v * hn::Lanes(lanes));
      add_product(sums[0][v], a, a);
      add_product(sums[1][v], a, b);
      add_product(sums[2][v], b, b);
    }
  }

  static HWY_INLINE void add_product(vector& sum, vector one, vector other) {
    if constexpr (dot_sums<Format>::has_exact_products)
      sum = hn::MulAdd(one, other, sum);
    else
      sum = hn::Add(sum, hn::Mul(one, other));
  }

  HWY_INLINE void store(std::size_t p, hn::TFromD<D>* to) const {
    const D lanes;
    for (std::size_t v = 0; v < Width; ++v) hn::Store(sums[p][v], lanes, to + v * hn::Lanes(lanes));
  }
};

/// An incomplete row at the end of a block, padded with zeros. A complete row has one element for each lane.
template <class Element, std::size_t Row>
struct padded_row {
  Element elements[k_inputs][Row] = {};
  const Element* begins[k_inputs];

  padded_row(const Element* const (&inputs)[k_inputs], std::size_t from, std::size_t count) {
    for (std::size_t k = 0; k < k_inputs; ++k) {
      for (std::size_t i = from; i < count; ++i) elements[k][i - from] = inputs[k][i];
      begins[k] = elements[k];
    }
  }
};

template <std::size_t Elements, class Element>
HWY_INLINE void fetch(const Element* row) {
  constexpr std::size_t line = 64 / sizeof(Element);
  for (std::size_t i = 0; i < Elements; i += line) __builtin_prefetch(row + i, 0, 3);
}

/// Adds the p-th dot of the first `count` elements of the inputs to dots[p]. `count` is at most k_dot_block. Before a
/// row is added, the row that begins `ahead` elements later is prefetched.
template <class Format>
HWY_INLINE void add_dots_of_block(const typename Format::element* const (&inputs)[k_inputs], std::size_t ahead,
                                  std::size_t count, double (&dots)[k_dots]) {
  using lane = typename dot_sums<Format>::lane;
  constexpr std::size_t row = dot_sums<Format>::lanes;
  const hn::CappedTag<lane, row> lanes;
  using D = std::remove_const_t<decltype(lanes)>;
  constexpr std::size_t width = std::min(k_registers_for_dot, row / hn::MaxLanes(lanes));
  const std::size_t whole = count / row * row;
  HWY_ALIGN lane sums[k_dots][row];
  for (std::size_t first = 0; first < row; first += width * hn::Lanes(lanes)) {
    partial_sums<Format, D, width> partial;
    partial.clear();
    for (std::size_t i = first; i < whole; i += row) {
      for (const auto* input : inputs) fetch<row>(input + ahead + i);
      partial.add(inputs, i);
    }
    if (whole < count) partial.add(padded_row<typename Format::element, row>(inputs, whole, count).begins, first);
    HWY_UNROLL(16)
    for (std::size_t p = 0; p < k_dots; ++p) partial.store(p, sums[p] + first);
  }
  for (std::size_t p = 0; p < k_dots; ++p) dots[p] += sum_of_lanes(sums[p]);
}

HWY_INLINE double canonical_number(double value) {
  return value != value ? std::numeric_limits<double>::quiet_NaN() : value;
}

// ---- kernels

template <class Format>
void dot_norms(const void* a, const void* b, std::size_t count, double* sums) {
  using element = typename Format::element;
  const element* lower = static_cast<const element*>(a);
  const element* upper = static_cast<const element*>(b);
  double dots[k_dots] = {};
  for (std::size_t done = 0; done < count;) {
    double of_group[k_dots] = {};
    for (std::size_t block = 0; block < k_dot_group && done < count; ++block) {
      const std::size_t left = count - done, length = left < k_dot_block ? left : k_dot_block;
      const std::size_t ahead = left >= 2 * k_dot_block ? k_dot_block : 0;  // 0 if the next block is incomplete
      add_dots_of_block<Format>({lower + done, upper + done}, ahead, length, of_group);
      done += length;
    }
    for (std::size_t p = 0; p < k_dots; ++p) dots[p] += of_group[p];
  }
  sums[0] = canonical_number(dots[1]), sums[1] = canonical_number(dots[0]), sums[2] = canonical_number(dots[2]);
}

/// Prefetches elements that the sweep will reach soon. f64 elements are not prefetched, because the hardware loads f64
/// fast enough.
template <class Element>
HWY_INLINE void fetch_ahead(const Element* from, std::size_t first, std::size_t count) {
  constexpr std::size_t ahead = 512;
  if constexpr (sizeof(Element) < sizeof(double)) hwy::Prefetch(from + (first + ahead < count ? first + ahead : first));
}

/// Range of the coefficients for which arithmetic in f32 is sufficient. The largest element times `greatest`, divided
/// by `shift_factor`, is at most half of the largest f32. If a coefficient is at least `smallest`, its products keep
/// all bits that can change the rounded result.
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

/// The step of a sweep that computes x * a + y * b in lanes of type `Wide`. If `Wide` is float, the coefficients x and
/// y have been divided by `shift_factor`.
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

/// Writes zeros if a or b is null. The result is never null, because one message can contain the sums of several
/// vectors. Some of these vectors can be null, and others not. Later, the kernel `adasum` checks whether its own
/// operands a and b are null.
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
consteval adaptive_kernels kernels_of_format() {
  return {&dot_norms<Format>, &scaled_add<Format>, &call_dot_norms<Format>, &call_adasum<Format>};
}

/// Returns the kernels for f16, bf16, f32 and f64, in the order of the enumerators of dtype.
const std::array<adaptive_kernels, 4>& table() {
  static constexpr std::array<adaptive_kernels, 4> all{kernels_of_format<half>(), kernels_of_format<brain>(),
                                                       kernels_of_format<plain<float>>(),
                                                       kernels_of_format<plain<double>>()};
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
adaptive_kernels kernels_of(dtype type) {
  if (!is_floating(type)) return {};
  return HWY_DYNAMIC_DISPATCH(table)()[static_cast<std::size_t>(type) - static_cast<std::size_t>(dtype::f16)];
}

/// sqrt(DBL_MIN), the smallest squared norm of a vector that is not treated as zero (adasum.h)
constexpr double k_least_norm = 0x1p-511;
static_assert(k_least_norm * k_least_norm == std::numeric_limits<double>::min());

/// Returns dot / norm, or 0 if `norm` is too small. The division comes before any other scaling, so that no
/// intermediate result overflows.
double share(double dot, double norm) { return norm >= k_least_norm ? dot / norm : 0; }

}  // namespace

dot_norms_fn find_dot_norms(dtype type) { return kernels_of(type).dot_norms; }
scaled_add_fn find_scaled_add(dtype type) { return kernels_of(type).scaled_add; }
kernel_fn find_adaptive(kernel what, dtype type) {
  const adaptive_kernels all = kernels_of(type);
  return what == kernel::dot_norms ? all.dot_norms_call : all.adasum_call;
}

adasum_coefficients adasum_coefficients_of(const double sums[3]) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  if (!std::isfinite(sums[0]) || !std::isfinite(sums[1]) || !std::isfinite(sums[2])) return {nan, nan};
  return {1 - share(sums[0], sums[1]) * 0.5, 1 - share(sums[0], sums[2]) * 0.5};
}

}  // namespace lsched
#endif
