// Gram matrices with twice the digits: ops/gram_pairs.h says how they are summed, and how exactly. Compiled once for
// each SIMD target; include it only from code that is itself written for ops that Highway re-includes.
//
// A lane is a sum `high`, which begins at a bias and stays within its binade, and what was lost by rounding it:
//
//     t = high + a b                    rounded to a multiple of the bias's last place
//     low += a b - (t - high)           of which t - high is exact
//     high = t
//
// Both multiplications are fused. Where products are exact that changes nothing; for f64 targets that cannot fuse ask
// the C library element by element, which is slow, and right.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "ops/adasum.h"
#include "ops/dots-inl.h"
#include "ops/double_double.h"
#include "ops/sweep-inl.h"

#if defined(LSCHED_OPS_COMPENSATED_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LSCHED_OPS_COMPENSATED_INL_H
#undef LSCHED_OPS_COMPENSATED_INL_H
#else
#define LSCHED_OPS_COMPENSATED_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lsched {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Better targets have lower numbers.
#if HWY_ARCH_X86
inline constexpr bool k_can_fuse = HWY_TARGET <= HWY_AVX2;
#else
inline constexpr bool k_can_fuse = HWY_ARCH_ARM_A64 && HWY_TARGET == HWY_NEON;
#endif

/// a b + c, rounded once; of exact products on any target.
template <bool IsExact, class D>
HWY_INLINE hn::VFromD<D> fused(D lanes, hn::VFromD<D> a, hn::VFromD<D> b, hn::VFromD<D> c) {
  if constexpr (IsExact || k_can_fuse) {
    return hn::MulAdd(a, b, c);
  } else {
    HWY_ALIGN double of_a[hn::MaxLanes(lanes)], of_b[hn::MaxLanes(lanes)], of_c[hn::MaxLanes(lanes)];
    hn::Store(a, lanes, of_a);
    hn::Store(b, lanes, of_b);
    hn::Store(c, lanes, of_c);
    for (std::size_t i = 0; i < hn::MaxLanes(lanes); ++i) of_c[i] = __builtin_fma(of_a[i], of_b[i], of_c[i]);
    return hn::Load(lanes, of_c);
  }
}

inline constexpr std::size_t k_compensated_lanes = 16;

/// `Width` vectors of lanes for each pair of a shape, beginning at some lane.
template <class Format, class Shape, class D, std::size_t Width>
struct compensated_sums {
  using vector = hn::VFromD<D>;
  using element = typename Format::element;
  vector high[Shape::count][Width];
  vector low[Shape::count][Width];

  HWY_INLINE compensated_sums() {}  // written for GCC, as that of partial_sums

  HWY_INLINE void begin(const double (&bias)[Shape::count]) {
    for (std::size_t p = 0; p < Shape::count; ++p)
      for (std::size_t v = 0; v < Width; ++v) high[p][v] = hn::Set(D(), bias[p]), low[p][v] = hn::Zero(D());
  }

  HWY_INLINE void add(const element* const (&from)[Shape::inputs], std::size_t i) {
    constexpr bool is_exact = dot_sums<Format>::has_exact_products;
    const D lanes;
    HWY_UNROLL(4)
    for (std::size_t v = 0; v < Width; ++v) {
      vector values[Shape::inputs];
      HWY_UNROLL(4)
      for (std::size_t k = 0; k < Shape::inputs; ++k)
        values[k] = load_as<Format>(lanes, from[k] + i + v * hn::Lanes(lanes));
      HWY_UNROLL(4)
      for (std::size_t p = 0; p < Shape::count; ++p) {
        const vector one = values[Shape::pairs[p][0]];
        const vector other = values[Shape::pairs[p][1]];
        const vector sum = fused<is_exact>(lanes, one, other, high[p][v]);
        const vector lost = fused<is_exact>(lanes, one, other, hn::Sub(high[p][v], sum));
        low[p][v] = hn::Add(low[p][v], lost);
        high[p][v] = sum;
      }
    }
  }

  HWY_INLINE void end(std::size_t p, double bias, double* highs, double* lows) const {
    const D lanes;
    for (std::size_t v = 0; v < Width; ++v) {
      hn::Store(hn::Sub(high[p][v], hn::Set(lanes, bias)), lanes, highs + v * hn::Lanes(lanes));
      hn::Store(low[p][v], lanes, lows + v * hn::Lanes(lanes));
    }
  }
};

/// dots[p], a pair, += the dot of the p-th pair over `count` elements, at most a block, of the inputs.
template <class Format, class Shape>
HWY_INLINE void add_compensated_dots(const typename Format::element* const (&inputs)[Shape::inputs],
                                     const double (&bias)[Shape::count], std::size_t count,
                                     double* const (&dots)[Shape::count]) {
  constexpr std::size_t row = k_compensated_lanes;
  const hn::CappedTag<double, row> lanes;
  using D = std::remove_const_t<decltype(lanes)>;
  constexpr std::size_t width =
      std::min(std::bit_floor(k_registers_for_sums / 2 / Shape::count), row / hn::MaxLanes(lanes));
  const std::size_t whole = count / row * row;
  HWY_ALIGN double highs[Shape::count][row], lows[Shape::count][row];
  for (std::size_t first = 0; first < row; first += width * hn::Lanes(lanes)) {
    compensated_sums<Format, Shape, D, width> sums;
    sums.begin(bias);
    for (std::size_t i = first; i < whole; i += row) sums.add(inputs, i);
    if (whole < count) sums.add(padded_row<Shape, typename Format::element, row>(inputs, whole, count).begins, first);
    for (std::size_t p = 0; p < Shape::count; ++p) sums.end(p, bias[p], highs[p] + first, lows[p] + first);
  }
  for (std::size_t p = 0; p < Shape::count; ++p) {
    const double_double high = two_sum(dots[p][0], sum_of_lanes(highs[p]));
    const double_double sum = ordered_sum(high.hi, high.lo + (dots[p][1] + sum_of_lanes(lows[p])));
    dots[p][0] = sum.hi, dots[p][1] = sum.lo;
  }
}

/// What the exponent of a squared norm is stored as, at least 1.
HWY_INLINE std::uint64_t exponent_of(double norm) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(norm) >> 52 & 2047;
  return bits == 0 ? 1 : bits;
}

/// 1.5 2^k with 2^(k-1) above the product of two norms, so that no sum of the products of their elements leads out of
/// the binade. NaN if a square is not finite, or there is no such number.
HWY_INLINE double bias_of(std::uint64_t exponent, std::uint64_t other) {
  const std::uint64_t bits = (exponent + other + 1) / 2 + 2;
  if (exponent == 2047 || other == 2047 || bits >= 2047) return std::numeric_limits<double>::quiet_NaN();
  return std::bit_cast<double>(bits << 52 | std::uint64_t{1} << 51);
}

/// Norms of a block, and meanwhile the next one is fetched.
template <class Format>
void find_exponents(const void* const* x, std::size_t n, std::size_t done, std::size_t count,
                    std::uint64_t* exponents) {
  using element = typename Format::element;
  const std::size_t next = done + ahead_of(done, count);
  for (std::size_t i = 0; i < n; i += 2) {
    const std::size_t j = i + 1 < n ? i + 1 : i;
    const element* const one = static_cast<const element*>(x[i]);
    const element* const other = static_cast<const element*>(x[j]);
    double dot = 0, norm = 0, other_norm = 0;
    const row_fetch<Format, nearness::second> soon{one + next, other + next};
    add_dots_of_block<Format, triangle<2>>({one + done, other + done}, soon, block_at(done, count),
                                           {&norm, &dot, &other_norm});
    exponents[i] = exponent_of(norm), exponents[j] = exponent_of(other_norm);
  }
}

/// Vectors go in twos, as in gram_of_block.
template <class Format>
void compensated_gram_of_block(const void* const* x, std::size_t n, std::size_t done, std::size_t count,
                               double* pairs) {
  using element = typename Format::element;
  const std::size_t size = block_at(done, count);
  std::array<std::uint64_t, k_most_adasum_leaves> exponents;
  find_exponents<Format>(x, n, done, count, exponents.data());
  double unread[2] = {};
  const auto which = [&](std::size_t k) HWY_ATTR { return k < n ? k : n - 1; };
  const auto at = [&](std::size_t k) HWY_ATTR { return static_cast<const element*>(x[which(k)]) + done; };
  const auto bias = [&](std::size_t i, std::size_t j)
                        HWY_ATTR { return bias_of(exponents[which(i)], exponents[which(j)]); };
  const auto place = [&](std::size_t i, std::size_t j)
                         HWY_ATTR { return j < n ? pairs + 2 * gram_place(n, i, j) : unread; };
  for (std::size_t i = 0; i < n; i += 2) {
    add_compensated_dots<Format, triangle<2>>({at(i), at(i + 1)}, {bias(i, i), bias(i, i + 1), bias(i + 1, i + 1)},
                                              size, {place(i, i), place(i, i + 1), place(i + 1, i + 1)});
    for (std::size_t j = i + 2; j < n; j += 2)
      add_compensated_dots<Format, rectangle<2, 2>>(
          {at(i), at(i + 1), at(j), at(j + 1)}, {bias(i, j), bias(i, j + 1), bias(i + 1, j), bias(i + 1, j + 1)}, size,
          {place(i, j), place(i, j + 1), place(i + 1, j), place(i + 1, j + 1)});
  }
}

/// n at most k_most_adasum_leaves.
template <class Format>
void compensated_gram(const void* const* x, std::size_t n, std::size_t count, double* pairs) {
  const std::size_t size = n * (n + 1);
  for (std::size_t k = 0; k < size; ++k) pairs[k] = 0;
  for (std::size_t done = 0; done < count; done += k_dot_block)
    compensated_gram_of_block<Format>(x, n, done, count, pairs);
  for (std::size_t k = 0; k < size; k += 2) make_canonical_pair(pairs + k);
}

// ---- weighted sums

/// The terms are exact sums of two doubles, and so is what they are added to.
template <class Format>
struct compensated_weighted_sum_step {
  const double* w;
  const void* const* x;
  std::size_t n;
  typename Format::element* c;

  template <class D>
  HWY_INLINE void operator()(D lanes, std::size_t first) const {
    auto high = hn::Zero(lanes), low = hn::Zero(lanes);
    for (std::size_t k = 0; k < n; ++k) {
      const auto weight = hn::Set(lanes, w[k]);
      const auto value = load_as<Format>(lanes, static_cast<const typename Format::element*>(x[k]) + first);
      const auto term = hn::Mul(weight, value);
      const auto lost = fused<false>(lanes, weight, value, hn::Neg(term));
      const auto sum = hn::Add(high, term);
      const auto of_term = hn::Sub(sum, high);
      const auto rounded = hn::Add(hn::Sub(high, hn::Sub(sum, of_term)), hn::Sub(term, of_term));
      low = hn::Add(low, hn::Add(rounded, hn::Add(lost, hn::Mul(hn::Set(lanes, w[n + k]), value))));
      high = sum;
    }
    store_as<Format>(lanes, hn::Add(high, low), c + first);
  }
};

template <class Format>
void compensated_weighted_sum(const double* w, const void* const* x, std::size_t n, void* c, std::size_t count) {
  sweep<double>(count, compensated_weighted_sum_step<Format>{w, x, n, static_cast<typename Format::element*>(c)});
}

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lsched
HWY_AFTER_NAMESPACE();

#endif  // LSCHED_OPS_COMPENSATED_INL_H
