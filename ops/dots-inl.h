// Dots of one block of two or four vectors, and elements as lanes of f64. Compiled once for each SIMD target; include it
// only from code that is itself written for ops that Highway re-includes.
//
// To give the same bits on every target, sums are kept in as many lanes as ops/linear.h says, whatever the width of a
// vector: narrow vectors take several for them, or several passes over a block. Products that are exact may be fused
// with their sum where the hardware can, which changes nothing; others must not be, unless every target does.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/format-inl.h"
#include "ops/linear.h"

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

// ---- elements as lanes of f64

/// The format's own lanes, or the same widened, which is exact.
template <class Format, class D>
HWY_INLINE hn::VFromD<D> load_as(D lanes, const typename Format::element* from) {
  if constexpr (std::is_same_v<hn::TFromD<D>, typename Format::lane>) {
    return Format::load(lanes, from);
  } else {
    return hn::PromoteTo(lanes, Format::load(hn::Rebind<float, D>(), from));
  }
}

/// Rounds to nearest even. (Without vectors Highway gives the largest finite value instead of infinity.)
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

/// Cuts a value to the 24 bits of an f32, and makes the last of them odd where anything was cut off: that much is
/// enough to round it to nearest even a second time, to fewer bits, as if it had been done at once. Infinities and NaNs
/// remain what they are.
template <class D>
HWY_INLINE hn::VFromD<D> cut_to_odd(D lanes, hn::VFromD<D> value) {
  const hn::RebindToUnsigned<D> bits;
  const auto cut_off = hn::Set(bits, (std::uint64_t{1} << 29) - 1);
  const auto exact = hn::BitCast(bits, value);
  const auto carry = hn::Add(hn::And(exact, cut_off), cut_off);
  return hn::BitCast(lanes, hn::AndNot(cut_off, hn::Or(exact, carry)));
}

/// Rounds lanes of f64 once to the format.
template <class Format, class D>
HWY_INLINE void store_as(D lanes, hn::VFromD<D> value, typename Format::element* to) {
  if constexpr (std::is_same_v<typename Format::lane, double>) {
    Format::store(lanes, canonical(lanes, value), to);
  } else {
    const hn::Rebind<float, D> singles;
    if constexpr (sizeof(typename Format::element) < sizeof(float)) value = cut_to_odd(lanes, value);
    Format::store(singles, canonical(singles, to_single(lanes, value)), to);
  }
}

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

/// Which inputs are multiplied with which: all pairs of two, or each of two with each of two others. Registers hold at
/// most `width` vectors of sums for each pair.
struct triangle {
  static constexpr std::size_t inputs = 2;
  static constexpr std::size_t width = 4;
  static constexpr std::size_t count = 3;
  static constexpr std::size_t pairs[count][2] = {{0, 0}, {0, 1}, {1, 1}};
};
struct square {
  static constexpr std::size_t inputs = 4;
  static constexpr std::size_t width = 2;
  static constexpr std::size_t count = 4;
  static constexpr std::size_t pairs[count][2] = {{0, 2}, {0, 3}, {1, 2}, {1, 3}};
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

  HWY_INLINE void clear() {
    for (auto& of_pair : sums)
      for (vector& sum : of_pair) sum = hn::Zero(D());
  }

  /// Element i of the row that begins at from[k] belongs to the first of these lanes.
  HWY_INLINE void add(const typename Format::element* const (&from)[Shape::inputs], std::size_t i) {
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

/// Asks for the cache lines of a row before its turn comes: into the first cache, or only into the second, where there
/// is room for blocks of many vectors.
enum class nearness : int { second = 2, first = 3 };

template <nearness Where, std::size_t Elements, class Element>
HWY_INLINE void fetch(const Element* row) {
  constexpr std::size_t line = 64 / sizeof(Element);
  for (std::size_t i = 0; i < Elements; i += line) __builtin_prefetch(row + i, 0, static_cast<int>(Where));
}

/// dots[p] += the dot of the p-th pair over `count` elements, at most a block, of the inputs. Meanwhile as many elements
/// are fetched from each place of `soon`.
template <class Format, class Shape, nearness Where>
HWY_INLINE void add_dots_of_block(const typename Format::element* const (&inputs)[Shape::inputs],
                                  const typename Format::element* const (&soon)[2], std::size_t count,
                                  double* const (&dots)[Shape::count]) {
  using element = typename Format::element;
  using lane = typename dot_sums<Format>::lane;
  constexpr std::size_t row = dot_sums<Format>::lanes;
  const hn::CappedTag<lane, row> lanes;
  using D = decltype(lanes);
  constexpr std::size_t width = std::min(Shape::width, row / hn::MaxLanes(lanes));

  const std::size_t whole = count / row * row;
  HWY_ALIGN lane sums[Shape::count][row];
  for (std::size_t first = 0; first < row; first += width * hn::Lanes(lanes)) {
    partial_sums<Format, Shape, std::remove_const_t<D>, width> partial;
    partial.clear();
    for (std::size_t i = first; i < whole; i += row) {
      fetch<Where, row>(soon[0] + i);
      fetch<Where, row>(soon[1] + i);
      partial.add(inputs, i);
    }
    if (whole < count) {
      element rest[Shape::inputs][row] = {};
      const element* padded[Shape::inputs];
      for (std::size_t k = 0; k < Shape::inputs; ++k) {
        for (std::size_t i = whole; i < count; ++i) rest[k][i - whole] = inputs[k][i];
        padded[k] = rest[k];
      }
      partial.add(padded, first);
    }
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
