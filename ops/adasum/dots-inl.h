// Dots of one block of two vectors. Compiled once for each SIMD target; include it
// only from code that is itself written for ops that Highway re-includes.
//
// To give the same bits on every target, sums are kept in as many lanes as linear.h says, whatever the width of a
// vector: narrow vectors take several for them, or several passes over a block. Products that are exact may be fused
// with their sum where the hardware can, which changes nothing; others must not be, unless every target does.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/adasum/linear.h"
#include "ops/elementwise/format-inl.h"

#if defined(LSCHED_OPS_DOTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LSCHED_OPS_DOTS_INL_H
#undef LSCHED_OPS_DOTS_INL_H
#else
#define LSCHED_OPS_DOTS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lsched {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// ---- dots of one block

/// In what dots of a format are added up, and in how many lanes.
template <class Format>
struct dot_sums {
  static constexpr bool is_half = std::is_same_v<Format, half>;
  using lane = std::conditional_t<is_half, float, double>;
  static constexpr std::size_t lanes = is_half ? 32 : 16;
  static constexpr bool has_exact_products = !std::is_same_v<typename Format::lane, double>;
};
static_assert(k_dot_block % 32 == 0);

/// How many vectors of sums registers hold, beside the operands.
inline constexpr std::size_t k_registers_for_sums = 12;

/// Which inputs are multiplied with which: all pairs of some, themselves included.
template <std::size_t Inputs>
struct triangle {
  static constexpr std::size_t inputs = Inputs;
  static constexpr std::size_t count = Inputs * (Inputs + 1) / 2;
  static constexpr auto pairs = [] {
    std::array<std::array<std::size_t, 2>, count> all{};
    for (std::size_t i = 0, p = 0; i < Inputs; ++i)
      for (std::size_t j = i; j < Inputs; ++j) all[p++] = {i, j};
    return all;
  }();
};

/// Adds lanes [Half, 2 Half) to lanes [0, Half), and so on down to one.
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

/// `Width` vectors of sums for each pair of a shape, beginning at some lane.
template <class Format, class Shape, class D, std::size_t Width>
struct partial_sums {
  using vector = hn::VFromD<D>;
  vector sums[Shape::count][Width];

  // GCC compiles a constructor that nobody has written for the weakest target, and then cannot inline into it.
  HWY_INLINE partial_sums() {}

  HWY_INLINE void clear() {
    HWY_UNROLL(16)
    for (std::size_t p = 0; p < Shape::count; ++p)
      for (vector& sum : sums[p]) sum = hn::Zero(D());
  }

  /// Element i of the row that begins at from[k] belongs to the first of these lanes.
  HWY_INLINE void add(const typename Format::element* const (&from)[Shape::inputs], std::size_t i) {
    const D lanes;
    HWY_UNROLL(4)
    for (std::size_t v = 0; v < Width; ++v) {
      vector values[Shape::inputs];
      HWY_UNROLL(8)
      for (std::size_t k = 0; k < Shape::inputs; ++k)
        values[k] = load_as<Format>(lanes, from[k] + i + v * hn::Lanes(lanes));
      HWY_UNROLL(16)
      for (std::size_t p = 0; p < Shape::count; ++p) {
        const vector one = values[Shape::pairs[p][0]];
        const vector other = values[Shape::pairs[p][1]];
        if constexpr (dot_sums<Format>::has_exact_products)
          sums[p][v] = hn::MulAdd(one, other, sums[p][v]);
        else
          sums[p][v] = hn::Add(sums[p][v], hn::Mul(one, other));
      }
    }
  }

  HWY_INLINE void store(std::size_t p, hn::TFromD<D>* to) const {
    const D lanes;
    for (std::size_t v = 0; v < Width; ++v) hn::Store(sums[p][v], lanes, to + v * hn::Lanes(lanes));
  }
};

/// A row at the end of a block, filled up with zeros.
template <class Shape, class Element, std::size_t Row>
struct padded_row {
  Element elements[Shape::inputs][Row] = {};
  const Element* begins[Shape::inputs];

  padded_row(const Element* const (&inputs)[Shape::inputs], std::size_t from, std::size_t count) {
    for (std::size_t k = 0; k < Shape::inputs; ++k) {
      for (std::size_t i = from; i < count; ++i) elements[k][i - from] = inputs[k][i];
      begins[k] = elements[k];
    }
  }
};

/// Asks for the cache lines of a row before its turn comes.
template <std::size_t Elements, class Element>
HWY_INLINE void fetch(const Element* row) {
  constexpr std::size_t line = 64 / sizeof(Element);
  for (std::size_t i = 0; i < Elements; i += line) __builtin_prefetch(row + i, 0, 3);
}

/// The same row of two vectors.
template <class Format>
struct row_fetch {
  const typename Format::element* one;
  const typename Format::element* other;

  HWY_INLINE void operator()(std::size_t i) const {
    fetch<dot_sums<Format>::lanes>(one + i);
    fetch<dot_sums<Format>::lanes>(other + i);
  }
};

/// dots[p] += the dot of the p-th pair over `count` elements, at most a block, of the inputs. Before the row at element
/// i, soon(i) is called to fetch what comes next.
template <class Format, class Shape, class Fetch>
HWY_INLINE void add_dots_of_block(const typename Format::element* const (&inputs)[Shape::inputs], Fetch& soon,
                                  std::size_t count, double* const (&dots)[Shape::count]) {
  using lane = typename dot_sums<Format>::lane;
  constexpr std::size_t row = dot_sums<Format>::lanes;
  const hn::CappedTag<lane, row> lanes;
  using D = std::remove_const_t<decltype(lanes)>;
  constexpr std::size_t width =
      std::min(std::bit_floor(k_registers_for_sums / Shape::count), row / hn::MaxLanes(lanes));
  const std::size_t whole = count / row * row;
  HWY_ALIGN lane sums[Shape::count][row];
  for (std::size_t first = 0; first < row; first += width * hn::Lanes(lanes)) {
    partial_sums<Format, Shape, D, width> partial;
    partial.clear();
    for (std::size_t i = first; i < whole; i += row) {
      soon(i);
      partial.add(inputs, i);
    }
    if (whole < count)
      partial.add(padded_row<Shape, typename Format::element, row>(inputs, whole, count).begins, first);
    HWY_UNROLL(16)
    for (std::size_t p = 0; p < Shape::count; ++p) partial.store(p, sums[p] + first);
  }
  for (std::size_t p = 0; p < Shape::count; ++p) *dots[p] += sum_of_lanes(sums[p]);
}

HWY_INLINE void make_canonical(double& value) {
  constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();
  if (value != value) value = quiet_nan;
}

/// From a block that begins at `done` to the next one, if that is whole, else 0.
HWY_INLINE std::size_t ahead_of(std::size_t done, std::size_t count) {
  return count - done >= 2 * k_dot_block ? k_dot_block : 0;
}

/// Elements of the block that begins at `done`.
HWY_INLINE std::size_t block_at(std::size_t done, std::size_t count) {
  return count - done < k_dot_block ? count - done : k_dot_block;
}

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lsched
HWY_AFTER_NAMESPACE();

#endif  // LSCHED_OPS_DOTS_INL_H
