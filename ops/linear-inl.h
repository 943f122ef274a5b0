// The kernels of ops/linear.h, written once over formats and compiled once for each SIMD target.
//
// Nothing here calls into the standard library at run time, as in ops/elementwise-inl.h.

#include <cstddef>
#include <type_traits>

#include "ops/compensated-inl.h"
#include "ops/dots-inl.h"
#include "ops/gram_condition.h"
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

// ---- kernels

/// Of plain sums of a format, as ops/linear.h and ops/gram_pairs.h say.
template <class Format>
constexpr gram_tolerance tolerance_of(std::size_t count) {
  constexpr bool is_single = std::is_same_v<Format, plain<float>> || std::is_same_v<Format, brain>;
  const double blocks = static_cast<double>(count) / k_dot_block + 1;
  return {.error = (std::is_same_v<Format, half> ? 0x1.001p-19 : 0) + (69 + blocks) * 0x1p-53,
          .amplification = is_single ? 0x1p20 : 0x1p8};
}

template <class Format>
void dot_norms(const void* a, const void* b, std::size_t count, double* sums) {
  using element = typename Format::element;
  const element* lower = static_cast<const element*>(a);
  const element* upper = static_cast<const element*>(b);
  double dot = 0, norm_a = 0, norm_b = 0;
  for (std::size_t done = 0; done < count; done += k_dot_block) {
    const std::size_t next = done + ahead_of(done, count);
    const row_fetch<Format, nearness::first> soon{lower + next, upper + next};
    add_dots_of_block<Format, triangle<2>>({lower + done, upper + done}, soon, block_at(done, count),
                                           {&norm_a, &dot, &norm_b});
  }
  make_canonical(dot), make_canonical(norm_a), make_canonical(norm_b);
  sums[0] = dot, sums[1] = norm_a, sums[2] = norm_b;
}

/// Asks for the next block of some vectors, a few cache lines at a time: evenly, memory delivers more.
template <class Element>
class block_fetch {
 public:
  /// Of n vectors that go on at element `begin`; `at_a_time` lines for each call.
  HWY_INLINE block_fetch(const void* const* x, std::size_t n, std::size_t begin, std::size_t at_a_time)
      : x_(x), left_(n), begin_(begin), at_a_time_(at_a_time) {
    next_vector();
  }

  HWY_INLINE void operator()(std::size_t) {
    for (std::size_t i = 0; i < at_a_time_; ++i) {
      __builtin_prefetch(at_, 0, static_cast<int>(nearness::second));
      at_ += k_line;
      if (at_ == end_) next_vector();
    }
  }

 private:
  static constexpr std::size_t k_line = 64 / sizeof(Element);
  static_assert(k_dot_block % k_line == 0);

  /// After the last vector it is that again, which is on its way.
  HWY_INLINE void next_vector() {
    if (left_ > 0) --left_;
    at_ = static_cast<const Element*>(x_[left_]) + begin_;
    end_ = at_ + k_dot_block;
  }

  const void* const* x_;
  std::size_t left_;
  std::size_t begin_;
  std::size_t at_a_time_;
  const Element* at_ = nullptr;
  const Element* end_ = nullptr;
};

/// One block of n vectors, in groups whose sums fit into registers: each group with itself, and with those behind it.
template <class Format>
class gram_of_block {
 public:
  using element = typename Format::element;

  HWY_INLINE gram_of_block(const void* const* x, std::size_t n, std::size_t done, std::size_t count)
      : x_(x),
        n_(n),
        done_(done),
        size_(block_at(done, count)),
        next_(x, n, done + ahead_of(done, count), lines_at_a_time(n)) {}

  HWY_INLINE void add_to(double* sums) {
    for (std::size_t i = 0; i < n_; i += k_group) {
      if (n_ - i <= 2) {
        add_tile<triangle<2>>(i, i, sums);
        continue;
      }
      add_tile<triangle<k_group>>(i, i, sums);
      for (std::size_t j = i + k_group; j < n_; j += k_group)
        if (n_ - j <= 2)
          add_tile<rectangle<k_group, 2>>(i, j, sums);
        else
          add_tile<rectangle<k_group, k_group>>(i, j, sums);
    }
  }

 private:
  static constexpr std::size_t k_group = k_has_many_registers ? 4 : 2;

  /// Cache lines of the next block for each row of lanes, over which a rectangle goes twice.
  static HWY_INLINE std::size_t lines_at_a_time(std::size_t n) {
    const std::size_t groups = (n + k_group - 1) / k_group;
    const std::size_t bytes = n * dot_sums<Format>::lanes * sizeof(element);
    return (bytes + 64 * groups * groups - 1) / (64 * groups * groups);
  }

  /// Of the vectors from i, and from j if that is another group. Where vectors run out the last one stands in, and
  /// nobody reads the sums.
  template <class Shape>
  HWY_INLINE void add_tile(std::size_t i, std::size_t j, double* sums) {
    const auto which = [&](std::size_t k) HWY_ATTR { return k < k_group ? i + k : j + k - k_group; };
    const element* inputs[Shape::inputs];
    for (std::size_t k = 0; k < Shape::inputs; ++k)
      inputs[k] = static_cast<const element*>(x_[which(k) < n_ ? which(k) : n_ - 1]) + done_;
    double unread = 0;
    double* dots[Shape::count];
    for (std::size_t p = 0; p < Shape::count; ++p) {
      const std::size_t other = which(Shape::pairs[p][1]);
      dots[p] = other < n_ ? sums + gram_place(n_, which(Shape::pairs[p][0]), other) : &unread;
    }
    add_dots_of_block<Format, Shape>(inputs, next_, size_, dots);
  }

  const void* const* x_;
  std::size_t n_;
  std::size_t done_;
  std::size_t size_;
  block_fetch<element> next_;
};

template <class Format>
void gram(const void* const* x, std::size_t n, std::size_t count, double* sums) {
  const std::size_t pairs = n * (n + 1) / 2;
  for (std::size_t p = 0; p < pairs; ++p) sums[p] = 0;
  if (n == 0) return;
  for (std::size_t done = 0; done < count; done += k_dot_block) gram_of_block<Format>(x, n, done, count).add_to(sums);
  for (std::size_t p = 0; p < pairs; ++p) make_canonical(sums[p]);
}

/// Doubles where they will do: `pairs` holds plain sums and scratch before it holds pairs.
template <class Format>
void gram_pairs(const void* const* x, std::size_t n, std::size_t count, double* pairs) {
  gram<Format>(x, n, count, pairs);
  if (are_doubles_enough(n, tolerance_of<Format>(count), pairs))
    spread_to_pairs(n, pairs);
  else
    compensated_gram<Format>(x, n, count, pairs);
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
  return {&dot_norms<Format>,
          &gram<Format>,
          &gram_pairs<Format>,
          &compensated_gram<Format>,
          &scaled_add<Format>,
          &weighted_sum<Format>,
          &compensated_weighted_sum<Format>};
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
