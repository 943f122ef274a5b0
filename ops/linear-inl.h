// The kernels of ops/linear.h, written once over formats and compiled once for each SIMD target.
//
// To give the same bits on every target, sums are kept in as many lanes as ops/linear.h says, whatever the width of a
// vector: narrow vectors take several for them, or several passes over a block. Products that are exact may be fused
// with their sum where the hardware can, which changes nothing; others must not be. Nothing here calls into the
// standard library at run time, as in ops/elementwise-inl.h.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/format-inl.h"
#include "ops/linear_table.h"
#include "ops/sweep-inl.h"

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

// ---- kernels

template <class Format>
void dot_norms(const void* a, const void* b, std::size_t count, double* sums) {
  using element = typename Format::element;
  const element* lower = static_cast<const element*>(a);
  const element* upper = static_cast<const element*>(b);
  double dot = 0, norm_a = 0, norm_b = 0;
  for (std::size_t done = 0; done < count; done += k_dot_block) {
    const std::size_t next = done + ahead_of(done, count);
    add_dots_of_block<Format, triangle, nearness::first>({lower + done, upper + done}, {lower + next, upper + next},
                                                         block_at(done, count), {&norm_a, &dot, &norm_b});
  }
  make_canonical(dot), make_canonical(norm_a), make_canonical(norm_b);
  sums[0] = dot, sums[1] = norm_a, sums[2] = norm_b;
}

/// Vectors go in twos; of an odd number the last one stands in for its missing partner, whose sums nobody reads. The
/// next block of the n vectors is fetched evenly over the passes, which takes no more than two at a time.
template <class Format>
void gram_of_block(const void* const* x, std::size_t n, std::size_t done, std::size_t count, double* sums) {
  using element = typename Format::element;
  const std::size_t size = block_at(done, count);
  const std::size_t next = done + ahead_of(done, count);
  const std::size_t twos = (n + 1) / 2;
  const std::size_t passes = twos * (twos + 1) / 2;
  double unread = 0;
  const auto at = [&](std::size_t k, std::size_t first)
                      HWY_ATTR { return static_cast<const element*>(x[k < n ? k : n - 1]) + first; };
  const auto place = [&](std::size_t i, std::size_t j) HWY_ATTR {
    return j < n ? sums + gram_place(n, i, j) : &unread;  // i <= j
  };
  std::size_t pass = 0;
  for (std::size_t i = 0; i < n; i += 2)
    for (std::size_t j = i; j < n; j += 2, ++pass) {
      const std::size_t from = pass * n / passes;
      const std::size_t to = (pass + 1) * n / passes;
      const std::size_t block = from < to ? next : done;  // without a vector to fetch, what is here already
      const element* const soon[2] = {at(from, block), at(from + 1 < to ? from + 1 : from, block)};
      if (i == j)
        add_dots_of_block<Format, triangle, nearness::second>({at(i, done), at(i + 1, done)}, soon, size,
                                                              {place(i, i), place(i, i + 1), place(i + 1, i + 1)});
      else
        add_dots_of_block<Format, square, nearness::second>(
            {at(i, done), at(i + 1, done), at(j, done), at(j + 1, done)}, soon, size,
            {place(i, j), place(i, j + 1), place(i + 1, j), place(i + 1, j + 1)});
    }
}

template <class Format>
void gram(const void* const* x, std::size_t n, std::size_t count, double* sums) {
  const std::size_t pairs = n * (n + 1) / 2;
  for (std::size_t p = 0; p < pairs; ++p) sums[p] = 0;
  for (std::size_t done = 0; done < count; done += k_dot_block) gram_of_block<Format>(x, n, done, count, sums);
  for (std::size_t p = 0; p < pairs; ++p) make_canonical(sums[p]);
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

/// In f32, on coefficients that have been divided by `shift_factor`.
template <class Format>
struct narrow_scaled_add {
  float x;
  const typename Format::element* a;
  float y;
  const typename Format::element* b;
  typename Format::element* c;
  std::size_t count;

  template <class D>
  HWY_INLINE void operator()(D lanes, std::size_t first) const {
    fetch_ahead(a, first, count);
    fetch_ahead(b, first, count);
    const auto lower = hn::Mul(hn::Set(lanes, x), Format::load(lanes, a + first));
    const auto upper = hn::Mul(hn::Set(lanes, y), Format::load(lanes, b + first));
    auto sum = hn::Add(lower, upper);
    if constexpr (moderate<Format>::shift_factor != 1)
      sum = hn::Mul(sum, hn::Set(lanes, static_cast<float>(moderate<Format>::shift_factor)));
    Format::store(lanes, canonical(lanes, sum), c + first);
  }
};

template <class Format>
struct wide_scaled_add {
  double x;
  const typename Format::element* a;
  double y;
  const typename Format::element* b;
  typename Format::element* c;
  std::size_t count;

  template <class D>
  HWY_INLINE void operator()(D lanes, std::size_t first) const {
    fetch_ahead(a, first, count);
    fetch_ahead(b, first, count);
    const auto lower = hn::Mul(hn::Set(lanes, x), load_as<Format>(lanes, a + first));
    const auto upper = hn::Mul(hn::Set(lanes, y), load_as<Format>(lanes, b + first));
    store_as<Format>(lanes, hn::Add(lower, upper), c + first);
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
      sweep<float>(count, narrow_scaled_add<Format>{narrow(x), lower, narrow(y), upper, result, count});
      return;
    }
  }
  sweep<double>(count, wide_scaled_add<Format>{x, lower, y, upper, result, count});
}

template <class Format>
struct weighted_sum_step {
  const double* w;
  const void* const* x;
  std::size_t n;
  typename Format::element* c;
  std::size_t count;

  template <class D>
  HWY_INLINE hn::VFromD<D> term(D lanes, std::size_t k, std::size_t first) const {
    const auto* from = static_cast<const typename Format::element*>(x[k]);
    fetch_ahead(from, first, count);
    return hn::Mul(hn::Set(lanes, w[k]), load_as<Format>(lanes, from + first));
  }

  template <class D>
  HWY_INLINE void operator()(D lanes, std::size_t first) const {
    auto sum = term(lanes, 0, first);
    for (std::size_t k = 1; k < n; ++k) sum = hn::Add(sum, term(lanes, k, first));
    store_as<Format>(lanes, sum, c + first);
  }
};

template <class Format>
void weighted_sum(const double* w, const void* const* x, std::size_t n, void* c, std::size_t count) {
  using element = typename Format::element;
  element* result = static_cast<element*>(c);
  if (n == 0) {
    for (std::size_t i = 0; i < count; ++i) result[i] = element{};
    return;
  }
  sweep<double>(count, weighted_sum_step<Format>{w, x, n, result, count});
}

// ---- the table

template <class Format>
consteval linear_kernels kernels_of_format() {
  return {&dot_norms<Format>, &gram<Format>, &scaled_add<Format>, &weighted_sum<Format>};
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
