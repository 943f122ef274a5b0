// Tests the kernels of adasum.h on every SIMD target of this CPU. A scalar oracle checks the order of summation and the
// roundings that adasum.h specifies. The error bounds are checked against long double.
#include "ops/adasum/adasum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <span>

#include "tests/ops/elements.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_seed = 20240611;
constexpr std::array k_floats{dtype::f16, dtype::bf16, dtype::f32, dtype::f64};
constexpr double k_infinity = std::numeric_limits<double>::infinity();

using elements = std::vector<std::uint64_t>;

/// Returns element counts: all counts up to 200, and some that span several blocks.
std::vector<std::size_t> counts() {
  std::vector<std::size_t> all(201);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  all.insert(all.end(), {1007, 1023, 1024, 1025, 2049, 5003});
  return all;
}

/// Returns counts(), and some element counts that span several groups of blocks.
std::vector<std::size_t> counts_of_dots() {
  std::vector<std::size_t> all = counts();
  all.insert(all.end(), {65535, 65536, 65537, 140001});
  return all;
}

class source {
 public:
  source(dtype type, bool is_hard) : type_(type), is_hard_(is_hard), hard_(hard_values(type)) {}

  elements draw(std::size_t count) {
    elements drawn(count);
    for (std::uint64_t& bits : drawn) bits = next();
    return drawn;
  }

 private:
  /// Returns a value between -1 and 1. One value of eight is much smaller. If `is_hard_` is set, some values are
  /// subnormal, infinite or NaN.
  std::uint64_t next() {
    const std::uint64_t draw = random_();
    if (is_hard_ && draw % 37 == 0) return low_bytes(hard_[draw / 37 % hard_.size()], type_);
    const double value = static_cast<double>(draw >> 11) * 0x1p-52 - 1;
    return bits_of(type_, draw % 8 == 0 ? value * 0x1p-9 : value);
  }

  dtype type_;
  bool is_hard_;
  std::vector<std::uint64_t> hard_;
  std::mt19937_64 random_{k_seed};
};

void for_every_float(const std::function<void(dtype)>& body) {
  for (const dtype type : k_floats) {
    SCOPED_TRACE(std::string(name_of(type)));
    body(type);
  }
}

/// Unaligned elements that end directly before an inaccessible page.
class vector_in_memory {
 public:
  vector_in_memory(dtype type, const elements& from) : type_(type), count_(from.size()) {
    std::memset(before(), k_canary, k_margin);
    for (std::size_t i = 0; i < count_; ++i) write_element(data(), i, type, from[i]);
  }

  std::byte* data() { return memory_.last(count_ * size_of(type_)); }
  elements content() {
    elements all(count_);
    for (std::size_t i = 0; i < count_; ++i) all[i] = read_element(data(), i, type_);
    return all;
  }
  /// Returns whether the bytes before the first element are unchanged. A write behind the last element would crash the
  /// test.
  bool is_intact() {
    return std::all_of(before(), data(), [](std::byte value) { return value == std::byte{k_canary}; });
  }

 private:
  static constexpr std::size_t k_most_bytes = std::size_t{1} << 21;
  static constexpr std::size_t k_margin = 64;
  static constexpr unsigned char k_canary = 0xA5;

  std::byte* before() { return data() - k_margin; }

  dtype type_;
  std::size_t count_;
  reused_memory<k_most_bytes> memory_;
};

// ---- dots

double canonical(double value) { return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value; }
std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }

template <class Sum>
void fold(std::vector<Sum>& lanes) {
  const std::size_t half = lanes.size() / 2;
  for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  lanes.resize(half);
}

/// Returns the dot product of elements [first, end). The range must be at most one block.
double dot_of_block(dtype type, const elements& a, const elements& b, std::size_t first, std::size_t end) {
  std::vector<double> wide(16);
  std::vector<float> narrow(32);
  for (std::size_t e = first; e < end; ++e) {
    const double product = value_of(type, a[e]) * value_of(type, b[e]);
    if (type == dtype::f16)
      narrow[e % 32] += static_cast<float>(product);
    else
      wide[e % 16] += product;
  }
  fold(narrow);
  if (type == dtype::f16) wide.assign(narrow.begin(), narrow.end());
  while (wide.size() > 1) fold(wide);
  return wide[0];
}

/// Returns the dot product, summed in the order that adasum.h specifies.
double dot_in_order(dtype type, const elements& a, const elements& b) {
  std::vector<double> groups;
  for (std::size_t block = 0; block * k_dot_block < a.size(); ++block) {
    const std::size_t first = block * k_dot_block;
    if (block % k_dot_group == 0) groups.push_back(0);
    groups.back() += dot_of_block(type, a, b, first, std::min(first + k_dot_block, a.size()));
  }
  return canonical(std::accumulate(groups.begin(), groups.end(), 0.0));
}

std::array<double, 3> dots_of(dtype type, const elements& a, const elements& b) {
  vector_in_memory lower(type, a), upper(type, b);
  std::array<double, 3> sums{};
  find_dot_norms(type)(lower.data(), upper.data(), a.size(), sums.data());
  return sums;
}

std::vector<std::uint64_t> bits_of_all(std::span<const double> values) {
  std::vector<std::uint64_t> all;
  for (const double value : values) all.push_back(bits(value));
  return all;
}

TEST(linear, exists_for_floating_types_only) {
  for (const dtype type : k_all_dtypes) {
    EXPECT_EQ(find_dot_norms(type) != nullptr, is_floating(type));
    EXPECT_EQ(find_scaled_add(type) != nullptr, is_floating(type));
  }
  EXPECT_EQ(find_dot_norms(dtype{200}), nullptr);
}

TEST(linear, each_target_has_kernels_of_its_own) {
  std::set<dot_norms_fn> found;
  on_every_target([&] { found.insert(find_dot_norms(dtype::f32)); });
  EXPECT_EQ(found.size(), runnable_targets().size());
}

TEST(linear, dots_have_the_bits_of_the_promised_order_on_every_target) {
  SCOPED_TRACE(k_seed);
  for_every_float([](dtype type) {
    for (const bool is_hard : {false, true}) {
      source values(type, is_hard);
      for (const std::size_t count : counts_of_dots()) {
        const elements a = values.draw(count);
        const elements b = values.draw(count);
        const std::array right{dot_in_order(type, a, b), dot_in_order(type, a, a), dot_in_order(type, b, b)};
        on_every_target([&] { ASSERT_EQ(bits_of_all(dots_of(type, a, b)), bits_of_all(right)) << count; });
        const auto [dot, norm_a, norm_b] = dots_of(type, b, a);
        ASSERT_EQ(bits_of_all(std::array{dot, norm_b, norm_a}), bits_of_all(right)) << count;
      }
    }
  });
}

/// Returns the error that adasum.h allows for a dot product of `count` elements. `magnitude` is the sum of the absolute
/// values of the products.
long double allowed_error(dtype type, std::size_t count, long double magnitude) {
  const std::size_t blocks = (count + k_dot_block - 1) / k_dot_block;
  const std::size_t groups = (blocks + k_dot_group - 1) / k_dot_group;
  const auto sums = static_cast<long double>(std::min(blocks, k_dot_group) + groups);
  if (type == dtype::f16) return (0x1p-19L * (1 + 0x1p-18L) + (5 + sums) * 0x1p-53L) * magnitude;
  return ((type == dtype::f64 ? 69 : 68) + sums) * 0x1p-53L * magnitude;
}

TEST(linear, dots_are_as_exact_as_promised) {
  SCOPED_TRACE(k_seed);
  for_every_float([](dtype type) {
    source values(type, false);
    for (const std::size_t count : {1u, 7u, 300u, 1024u, 100003u}) {
      const elements a = values.draw(count);
      const elements b = values.draw(count);
      long double dot = 0, magnitude = 0, norm = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const long double x = value_of(type, a[i]), y = value_of(type, b[i]);
        dot += x * y, magnitude += std::fabs(x * y), norm += x * x;
      }
      const auto sums = dots_of(type, a, b);
      EXPECT_LE(std::fabs(sums[0] - dot), allowed_error(type, count, magnitude)) << count;
      EXPECT_LE(std::fabs(sums[1] - norm), allowed_error(type, count, norm)) << count;
    }
  });
}

TEST(linear, dots_of_the_largest_and_the_smallest_numbers_are_finite_and_not_lost) {
  on_every_target([] {
    const auto norm_of = [](dtype type, double value) {
      return dots_of(type, elements(2051, bits_of(type, value)), elements(2051, 0))[1];
    };
    EXPECT_EQ(norm_of(dtype::bf16, 0x1p127), 2051 * 0x1p254);
    EXPECT_EQ(norm_of(dtype::bf16, 0x1p-133), 2051 * 0x1p-266);
    EXPECT_EQ(norm_of(dtype::f32, 0x1p127), 2051 * 0x1p254);
    EXPECT_EQ(norm_of(dtype::f32, 0x1p-149), 2051 * 0x1p-298);
    EXPECT_EQ(norm_of(dtype::f16, 0x1p15), 2051 * 0x1p30);
    EXPECT_EQ(norm_of(dtype::f16, 0x1p-24), 2051 * 0x1p-48);
  });
}

// ---- weighted sums

bool is_moderate(dtype type, double x) {
  return x == 0 || (std::fabs(x) >= 0x1p-100 && std::fabs(x) <= (type == dtype::f16 ? 0x1p64 : 0x1p9));
}

/// Returns the weighted sum, rounded as adasum.h specifies. In bf16, a scale factor keeps intermediate sums within the
/// range of f32.
std::uint64_t scaled_sum(dtype type, double x, std::uint64_t a, double y, std::uint64_t b) {
  const double lower = value_of(type, a);
  const double upper = value_of(type, b);
  const bool is_short = type == dtype::f16 || type == dtype::bf16;
  if (!is_short || !is_moderate(type, x) || !is_moderate(type, y)) return bits_of(type, x * lower + y * upper);
  const float room = type == dtype::bf16 ? 1024.0F : 1.0F;
  const float one = static_cast<float>(x / room) * static_cast<float>(lower);
  const float other = static_cast<float>(y / room) * static_cast<float>(upper);
  return bits_of(type, static_cast<double>((one + other) * room));
}

/// Expects equal bits. Subnormal bf16 results are rounded twice, so they may differ by one unit in the last place.
void expect_same(dtype type, std::uint64_t is, std::uint64_t wanted) {
  const bool is_free = type == dtype::bf16 && std::fabs(value_of(type, wanted)) <= 0x1p-126;
  if (is_free && is + 1 >= wanted && is <= wanted + 1) return;
  ASSERT_EQ(is, wanted);
}

elements scaled_add(dtype type, double x, const elements& a, double y, const elements& b) {
  vector_in_memory lower(type, a), upper(type, b), result(type, elements(a.size()));
  find_scaled_add(type)(x, lower.data(), y, upper.data(), result.data(), a.size());
  EXPECT_TRUE(result.is_intact());
  return result.content();
}

constexpr std::array<std::array<double, 2>, 8> k_coefficients{{{0.75, 1.0},
                                                               {1.0 / 3, -2.0 / 7},
                                                               {1e-30, 511.9},
                                                               {0, -0.5},
                                                               {513.1, 0.3},
                                                               {1e40, -1e-40},
                                                               {1e-33, 1e5},
                                                               {-1e18, 1e18}}};

TEST(linear, scaled_add_rounds_as_promised_on_every_target_at_every_count) {
  SCOPED_TRACE(k_seed);
  for_every_float([](dtype type) {
    source values(type, true);
    for (const std::size_t count : counts()) {
      const elements a = values.draw(count);
      const elements b = values.draw(count);
      const double x = k_coefficients[count % k_coefficients.size()][0];
      const double y = k_coefficients[count % k_coefficients.size()][1];
      const elements best = scaled_add(type, x, a, y, b);
      for (std::size_t i = 0; i < count; ++i) expect_same(type, best[i], scaled_sum(type, x, a[i], y, b[i]));
      on_every_target([&] { ASSERT_EQ(scaled_add(type, x, a, y, b), best) << x << ' ' << y << ' ' << count; });
      ASSERT_EQ(scaled_add(type, y, b, x, a), best) << count;
    }
  });
}

/// Returns one unit in the last place of a value in a 16-bit format.
double unit_of(dtype type, double value) {
  const int bits_of_fraction = type == dtype::f16 ? 10 : 7;
  const int least = type == dtype::f16 ? -14 : -126;
  return std::ldexp(1.0, (value == 0 ? least : std::max(std::ilogb(value), least)) - bits_of_fraction);
}

TEST(linear, scaled_add_of_16_bits_is_as_exact_as_promised) {
  SCOPED_TRACE(k_seed);
  for (const dtype type : {dtype::f16, dtype::bf16}) {
    source values(type, true);
    for (const auto& [x, y] : k_coefficients) {
      const elements a = values.draw(4000);
      const elements b = values.draw(4000);
      const elements c = scaled_add(type, x, a, y, b);
      for (std::size_t i = 0; i < a.size(); ++i) {
        const double lower = x * value_of(type, a[i]);
        const double upper = y * value_of(type, b[i]);
        const double is = value_of(type, c[i]);
        if (!std::isfinite(is)) continue;
        const double allowed = 0x1p-22 * (std::fabs(lower) + std::fabs(upper)) + 0.52 * unit_of(type, is);
        ASSERT_LE(std::fabs(is - (lower + upper)), allowed) << name_of(type) << ' ' << x << ' ' << y;
      }
    }
  }
}

TEST(linear, scaled_add_of_16_bits_keeps_every_number) {
  elements all;
  for (std::uint64_t pattern = 0; pattern < 0x10000; ++pattern) all.push_back(pattern);
  for (const dtype type : {dtype::f16, dtype::bf16})
    on_every_target([&] {
      for (const double one : {1.0, 0x1p-101})  // a moderate and an extreme factor
        for (std::uint64_t pattern : {0x8000u}) {
          const elements zeros(all.size(), pattern);
          const elements result = scaled_add(type, 1.0, all, one, zeros);
          for (const std::uint64_t each : all)
            ASSERT_EQ(result[each], std::isnan(value_of(type, each)) ? bits_of(type, std::nan("")) : each);
        }
    });
}

double scaled_add_of_one(dtype type, double x, double a, double y, double b) {
  return value_of(type, scaled_add(type, x, {bits_of(type, a)}, y, {bits_of(type, b)}).front());
}

TEST(linear, scaled_add_does_not_overflow_where_its_result_does_not) {
  on_every_target([] {
    for (const dtype type : {dtype::bf16, dtype::f32}) {
      EXPECT_NEAR(scaled_add_of_one(type, 1e40, 1e-38, -1, 3), 97, 1);  // the ratio of the norms is 1e40
      EXPECT_NEAR(scaled_add_of_one(type, 1.5, 3e38, -1, 2e38), 2.5e38, 2e36);
      EXPECT_EQ(scaled_add_of_one(type, 1e40, 0, 1, 3), 3);
      EXPECT_EQ(scaled_add_of_one(type, 2, 3e38, 0, 1), k_infinity);
    }
    EXPECT_EQ(scaled_add_of_one(dtype::f16, 1e40, 0, 1, 3), 3);
    EXPECT_EQ(scaled_add_of_one(dtype::f16, 0x1p20, 1, -0x1p20, 1), 0);
    EXPECT_EQ(scaled_add_of_one(dtype::f16, 2, 60000, 0, 1), k_infinity);
  });
}

TEST(linear, scaled_add_does_not_lose_coefficients_that_f32_would) {
  on_every_target([] {
    EXPECT_EQ(scaled_add_of_one(dtype::bf16, 0x1.8p-148, 0x1p127, 0, 1), 0x1.8p-21);
    EXPECT_EQ(scaled_add_of_one(dtype::bf16, 0x1.8p-100, 0x1p100, 0x1p-101, 0x1p101), 2.5);
  });
}

TEST(linear, a_nan_is_the_canonical_one_whatever_came_in) {
  on_every_target([] {
    for_every_float([](dtype type) {
      const std::uint64_t nan = bits_of(type, std::nan(""));
      const std::uint64_t one = bits_of(type, 1.0);
      const std::uint64_t infinity = bits_of(type, k_infinity);
      const std::uint64_t odd_nan = low_bytes(~std::uint64_t{0}, type);
      for (const double x : {1.0, 1e41}) {
        EXPECT_EQ(scaled_add(type, x, {odd_nan}, 1, {one}).front(), nan);
        EXPECT_EQ(scaled_add(type, x, {infinity}, -x, {infinity}).front(), nan);
        EXPECT_EQ(scaled_add(type, std::nan("7"), {one}, x, {one}).front(), nan);
      }
      EXPECT_EQ(bits_of_all(dots_of(type, {odd_nan, one}, {one, one})),
                bits_of_all(std::array{canonical(NAN), canonical(NAN), 2.0}));
      EXPECT_EQ(bits(dots_of(type, {infinity, infinity}, {one, bits_of(type, -1.0)})[0]), bits(canonical(NAN)));
    });
  });
}

TEST(linear, the_result_of_scaled_add_may_replace_either_operand_or_both) {
  on_every_target([] {
    for_every_float([](dtype type) {
      source values(type, true);
      for (const std::size_t count : {1u, 7u, 65u, 1001u})
        for (const double x : {0.25, 1e19}) {
          const elements a = values.draw(count);
          const elements b = values.draw(count);
          vector_in_memory lower(type, a), upper(type, b), both(type, a);
          const auto add = find_scaled_add(type);
          add(x, both.data(), 3, both.data(), both.data(), count);
          ASSERT_EQ(both.content(), scaled_add(type, x, a, 3, a));
          add(x, lower.data(), 3, upper.data(), upper.data(), count);
          ASSERT_EQ(upper.content(), scaled_add(type, x, a, 3, b));
          vector_in_memory other(type, b);
          add(x, lower.data(), 3, other.data(), lower.data(), count);
          ASSERT_EQ(lower.content(), scaled_add(type, x, a, 3, b));
        }
    });
  });
}

TEST(linear, nothing_takes_null_pointers) {
  on_every_target([] {
    for_every_float([](dtype type) {
      std::array<double, 3> sums{1, 2, 3};
      find_dot_norms(type)(nullptr, nullptr, 0, sums.data());
      EXPECT_EQ(sums, (std::array{0.0, 0.0, 0.0}));
      find_scaled_add(type)(1, nullptr, 2, nullptr, nullptr, 0);
    });
  });
}

}  // namespace
}  // namespace lsched
