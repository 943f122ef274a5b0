// Tests every kernel against a scalar oracle that shares no code with the kernel, on every SIMD target of this CPU.
//
// The tests compare elements as bit patterns. NaNs and zeros must therefore have equal bits, too.
#include "ops/kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/simd_targets.h"
#include "tests/ops/elements.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_seed = 20240607;
constexpr std::array<std::size_t, 17> k_counts{0, 1, 2, 3, 5, 6, 7, 15, 16, 17, 31, 33, 63, 64, 65, 1000, 1001};

// ---- the oracle: arithmetic one element at a time

template <class Float>
Float combine_floats(kernel what, Float a, Float b) {
  if (what == kernel::sum) return a + b;
  if (what == kernel::prod) return a * b;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Float>::quiet_NaN();
  const bool a_is_less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
  return a_is_less == (what == kernel::min) ? a : b;
}

template <class Integer>
std::uint64_t combine_integers(kernel what, std::uint64_t a_bits, std::uint64_t b_bits) {
  const auto a = static_cast<Integer>(a_bits);
  const auto b = static_cast<Integer>(b_bits);
  switch (what) {
    case kernel::sum: return a_bits + b_bits;
    case kernel::prod: return a_bits * b_bits;
    case kernel::min: return static_cast<std::uint64_t>(a < b ? a : b);
    case kernel::max: return static_cast<std::uint64_t>(a < b ? b : a);
    case kernel::land: return a != 0 && b != 0 ? 1 : 0;
    case kernel::lor: return a != 0 || b != 0 ? 1 : 0;
    case kernel::lxor: return (a != 0) != (b != 0) ? 1 : 0;
    case kernel::band: return a_bits & b_bits;
    case kernel::bor: return a_bits | b_bits;
    case kernel::bxor: return a_bits ^ b_bits;
    default: return ~a_bits;
  }
}

std::uint64_t expected(kernel what, dtype type, std::uint64_t a, std::uint64_t b) {
  switch (type) {
    case dtype::i8: return low_bytes(combine_integers<std::int8_t>(what, a, b), type);
    case dtype::u8: return low_bytes(combine_integers<std::uint8_t>(what, a, b), type);
    case dtype::i32: return low_bytes(combine_integers<std::int32_t>(what, a, b), type);
    case dtype::i64: return combine_integers<std::int64_t>(what, a, b);
    case dtype::u64: return combine_integers<std::uint64_t>(what, a, b);
    case dtype::f64: return bits_of(type, combine_floats(what, value_of(type, a), value_of(type, b)));
    default: break;
  }
  const auto lower = static_cast<float>(value_of(type, a));
  const auto upper = static_cast<float>(value_of(type, b));
  return bits_of(type, static_cast<double>(combine_floats(what, lower, upper)));
}

// ---- operands

class source {
 public:
  explicit source(dtype type) : type_(type), hard_(hard_values(type)) {}

  std::uint64_t next() {
    const std::uint64_t draw = random_();
    if (draw % 3 == 0) return low_bytes(hard_[draw / 3 % hard_.size()], type_);
    if (draw % 3 == 1 && is_floating(type_)) return bits_of(type_, static_cast<double>(draw >> 40) * 0x1p-20 - 8);
    return low_bytes(random_(), type_);
  }

 private:
  dtype type_;
  std::vector<std::uint64_t> hard_;
  std::mt19937_64 random_{k_seed};
};

struct operands {
  std::vector<std::uint64_t> a;
  std::vector<std::uint64_t> b;
};

operands draw_operands(dtype type, std::size_t count) {
  source values(type);
  operands drawn;
  for (std::size_t i = 0; i < count; ++i) {
    drawn.a.push_back(values.next());
    drawn.b.push_back(values.next());
  }
  return drawn;
}

void for_every_kernel(const std::function<void(kernel, dtype)>& body) {
  for (const dtype type : k_all_dtypes) {
    for (const kernel what : k_all_reductions) {
      if (!supports(what, type)) continue;
      SCOPED_TRACE(std::string(name_of(what)) + " of " + std::string(name_of(type)));
      body(what, type);
    }
  }
}

/// Applies a kernel to bit patterns, and returns bit patterns.
std::vector<std::uint64_t> reduced(kernel what, dtype type, const operands& in) {
  const std::size_t count = in.a.size();
  std::vector<std::byte> a(count * size_of(type));
  std::vector<std::byte> b(a.size());
  std::vector<std::byte> c(a.size());
  for (std::size_t i = 0; i < count; ++i) write_element(a.data(), i, type, in.a[i]);
  for (std::size_t i = 0; i < count; ++i) write_element(b.data(), i, type, in.b[i]);
  find_reduce(what, type)(a.data(), b.data(), c.data(), count);
  std::vector<std::uint64_t> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(read_element(c.data(), i, type));
  return out;
}

std::uint64_t reduced(kernel what, dtype type, std::uint64_t a, std::uint64_t b) {
  return reduced(what, type, operands{{a}, {b}}).front();
}

std::vector<std::uint64_t> divided(dtype type, const std::vector<std::uint64_t>& in, std::uint64_t divisor) {
  std::vector<std::byte> a(in.size() * size_of(type)), c(a.size());
  for (std::size_t i = 0; i < in.size(); ++i) write_element(a.data(), i, type, in[i]);
  find_divide(type)(a.data(), c.data(), in.size(), divisor);
  std::vector<std::uint64_t> out;
  for (std::size_t i = 0; i < in.size(); ++i) out.push_back(read_element(c.data(), i, type));
  return out;
}

// ---- names and tables

TEST(kernel, names_are_distinct_and_complete) {
  std::set<std::string_view> names{name_of(kernel::none), name_of(kernel::copy)};
  for (const kernel what : k_all_reductions) names.insert(name_of(what));
  EXPECT_EQ(names.size(), k_all_reductions.size() + 2);
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(name_of(kernel::lxor), "lxor");
  EXPECT_EQ(name_of(kernel{200}), "unknown");
}

TEST(kernel, find_reduce_answers_exactly_what_supports_says) {
  on_every_target([] {
    for (const dtype type : k_all_dtypes)
      for (const kernel what : k_all_reductions)
        EXPECT_EQ(find_reduce(what, type) != nullptr, supports(what, type)) << name_of(what) << name_of(type);
  });
}

TEST(kernel, what_is_no_reduction_or_no_type_has_no_kernel) {
  EXPECT_EQ(find_reduce(kernel::none, dtype::f32), nullptr);
  EXPECT_EQ(find_reduce(kernel::copy, dtype::f32), nullptr);
  EXPECT_EQ(find_reduce(kernel{200}, dtype::f32), nullptr);
  EXPECT_EQ(find_reduce(kernel::sum, dtype{200}), nullptr);
}

TEST(kernel, a_forced_target_stays_until_the_restriction_is_lifted) {
  const std::string best(simd_target());
  EXPECT_EQ(simd_target_at(0), best);
  on_every_target([] {
    const std::string forced(simd_target());
    EXPECT_FALSE(force_simd_target("no such target"));
    EXPECT_EQ(simd_target(), forced);
  });
  EXPECT_EQ(simd_target(), best);
}

TEST(kernel, each_target_has_kernels_of_its_own) {
  std::set<reduce_fn> found;
  on_every_target([&] { found.insert(find_reduce(kernel::sum, dtype::f32)); });
  EXPECT_EQ(found.size(), runnable_targets().size());
}

// ---- results

TEST(kernel, matches_the_oracle_at_every_count_and_offset_and_touches_nothing_else) {
  SCOPED_TRACE(k_seed);
  constexpr std::size_t k_room = 1001 * 8;
  constexpr std::byte k_canary{0xA5};
  guarded_memory a(k_room), b(k_room), c(k_room + 64);
  const auto check_one = [&](kernel what, dtype type, std::size_t count, std::size_t room_behind) {
    const std::size_t bytes = count * size_of(type);
    const operands in = draw_operands(type, count);
    std::byte* const out = c.last(bytes + room_behind * size_of(type));
    std::fill(out - 64, c.last(0), k_canary);
    for (std::size_t i = 0; i < count; ++i) write_element(a.last(bytes), i, type, in.a[i]);
    for (std::size_t i = 0; i < count; ++i) write_element(b.last(bytes), i, type, in.b[i]);
    find_reduce(what, type)(a.last(bytes), b.last(bytes), out, count);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(read_element(out, i, type), expected(what, type, in.a[i], in.b[i]))
          << "element " << i << " of " << count << std::hex << ": " << in.a[i] << ", " << in.b[i];
    const auto is_intact = [&](std::byte value) { return value == k_canary; };
    ASSERT_TRUE(std::all_of(out - 64, out, is_intact)) << "wrote before the output, count " << count;
    ASSERT_TRUE(std::all_of(out + bytes, c.last(0), is_intact)) << "wrote behind the output, count " << count;
  };
  on_every_target([&] {
    for_every_kernel([&](kernel what, dtype type) {
      for (const std::size_t count : k_counts)
        for (const std::size_t room_behind : {0u, 1u, 3u}) check_one(what, type, count, room_behind);
    });
  });
}

TEST(kernel, every_target_gives_the_same_bits) {
  SCOPED_TRACE(k_seed);
  for_every_kernel([](kernel what, dtype type) {
    const operands in = draw_operands(type, 4099);
    std::set<std::vector<std::uint64_t>> results;
    on_every_target([&] { results.insert(reduced(what, type, in)); });
    EXPECT_EQ(results.size(), 1U);
  });
}

TEST(kernel, the_place_of_an_element_does_not_change_its_bits) {
  on_every_target([] {
    for_every_kernel([](kernel what, dtype type) {
      const operands in = draw_operands(type, 300);
      const std::vector<std::uint64_t> together = reduced(what, type, in);
      for (std::size_t i = 0; i < in.a.size(); ++i) ASSERT_EQ(reduced(what, type, in.a[i], in.b[i]), together[i]) << i;
    });
  });
}

TEST(kernel, the_result_may_replace_either_operand_or_both) {
  const auto check_one = [](kernel what, dtype type, std::size_t count) {
    const operands in = draw_operands(type, count);
    const std::vector<std::uint64_t> apart = reduced(what, type, in);
    std::vector<std::byte> a(count * size_of(type)), b(a.size()), same(a.size());
    for (std::size_t i = 0; i < count; ++i) write_element(a.data(), i, type, in.a[i]);
    for (std::size_t i = 0; i < count; ++i) write_element(b.data(), i, type, in.b[i]);
    const std::vector<std::byte> first = a;
    same = a;
    find_reduce(what, type)(a.data(), b.data(), a.data(), count);
    find_reduce(what, type)(first.data(), b.data(), b.data(), count);
    find_reduce(what, type)(same.data(), same.data(), same.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(read_element(a.data(), i, type), apart[i]) << i;
      ASSERT_EQ(read_element(b.data(), i, type), apart[i]) << i;
      ASSERT_EQ(read_element(same.data(), i, type), expected(what, type, in.a[i], in.a[i])) << i;
    }
  };
  on_every_target([&] {
    for_every_kernel([&](kernel what, dtype type) {
      for (const std::size_t count : {1u, 3u, 7u, 65u, 1001u}) check_one(what, type, count);
    });
  });
}

TEST(kernel, count_zero_takes_null_pointers) {
  on_every_target([] {
    for_every_kernel([](kernel what, dtype type) { find_reduce(what, type)(nullptr, nullptr, nullptr, 0); });
    for (const dtype type : k_all_dtypes) find_divide(type)(nullptr, nullptr, 0, 3);
  });
}

TEST(kernel, integers_wrap_around) {
  on_every_target([] {
    EXPECT_EQ(reduced(kernel::sum, dtype::i8, 0x7F, 1), 0x80U);
    EXPECT_EQ(reduced(kernel::prod, dtype::u8, 0xFF, 0xFF), 0x01U);
    EXPECT_EQ(reduced(kernel::prod, dtype::i32, 0x80000000U, 0xFFFFFFFFU), 0x80000000U);
    EXPECT_EQ(reduced(kernel::sum, dtype::i64, 0x7FFFFFFFFFFFFFFFU, 1), 0x8000000000000000U);
    EXPECT_EQ(reduced(kernel::prod, dtype::u64, 0x100000001U, 0x100000001U), 0x200000001U);
  });
}

TEST(kernel, min_and_max_respect_the_sign_of_integers) {
  on_every_target([] {
    EXPECT_EQ(reduced(kernel::min, dtype::i8, 0xFF, 1), 0xFFU);
    EXPECT_EQ(reduced(kernel::min, dtype::u8, 0xFF, 1), 1U);
    EXPECT_EQ(reduced(kernel::max, dtype::i64, ~std::uint64_t{0}, 1), 1U);
    EXPECT_EQ(reduced(kernel::max, dtype::u64, ~std::uint64_t{0}, 1), ~std::uint64_t{0});
  });
}

TEST(kernel, a_nan_result_is_the_canonical_one_whatever_came_in) {
  const auto nan_bits = [](dtype type) { return bits_of(type, std::nan("")); };
  on_every_target([&] {
    for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64}) {
      const std::uint64_t infinity = bits_of(type, std::numeric_limits<double>::infinity());
      const std::uint64_t sign = std::uint64_t{1} << (8 * size_of(type) - 1);
      for (const kernel what : {kernel::sum, kernel::prod, kernel::min, kernel::max})
        for (const std::uint64_t nan : {infinity + 1, infinity + 5, nan_bits(type) + 1, nan_bits(type) + sign})
          for (const std::uint64_t other : {nan, infinity + 7, infinity, std::uint64_t{0}, sign}) {
            EXPECT_EQ(reduced(what, type, nan, other), nan_bits(type)) << name_of(what) << name_of(type);
            EXPECT_EQ(reduced(what, type, other, nan), nan_bits(type)) << name_of(what) << name_of(type);
          }
      EXPECT_EQ(reduced(kernel::sum, type, infinity, infinity + sign), nan_bits(type));
      EXPECT_EQ(reduced(kernel::prod, type, infinity + sign, 0), nan_bits(type));
    }
  });
}

TEST(kernel, negative_zero_is_less_than_positive_zero) {
  on_every_target([] {
    for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64}) {
      const std::uint64_t negative = std::uint64_t{1} << (8 * size_of(type) - 1);
      for (const auto& [a, b] : {std::pair{negative, std::uint64_t{0}}, std::pair{std::uint64_t{0}, negative}}) {
        EXPECT_EQ(reduced(kernel::min, type, a, b), negative) << name_of(type);
        EXPECT_EQ(reduced(kernel::max, type, a, b), 0U) << name_of(type);
        EXPECT_EQ(reduced(kernel::sum, type, a, b), 0U) << name_of(type);
      }
      EXPECT_EQ(reduced(kernel::sum, type, negative, negative), negative) << name_of(type);
    }
  });
}

// ---- 16-bit floats

operands all_patterns_with(const std::function<std::uint64_t(std::uint64_t)>& partner) {
  operands all;
  for (std::uint64_t bits = 0; bits < 0x10000; ++bits) {
    all.a.push_back(bits);
    all.b.push_back(partner(bits));
  }
  return all;
}

TEST(kernel, every_pattern_of_16_bits_survives_the_way_through_f32) {
  constexpr std::uint64_t k_negative_zero = 0x8000;
  const operands all = all_patterns_with([](std::uint64_t) { return k_negative_zero; });
  on_every_target([&] {
    for (const dtype type : {dtype::f16, dtype::bf16}) {
      const std::vector<std::uint64_t> sums = reduced(kernel::sum, type, all);
      for (std::uint64_t bits = 0; bits < 0x10000; ++bits) {
        const bool is_nan = std::isnan(value_of(type, bits));
        ASSERT_EQ(sums[bits], is_nan ? bits_of(type, std::nan("")) : bits) << std::hex << bits;
      }
    }
  });
}

TEST(kernel, f16_and_bf16_round_once_to_nearest_even_over_the_whole_range) {
  SCOPED_TRACE(k_seed);
  for (const dtype type : {dtype::f16, dtype::bf16}) {
    source values(type);
    const operands all = all_patterns_with([&](std::uint64_t) { return values.next(); });
    for (const kernel what : {kernel::sum, kernel::prod}) {
      std::vector<std::uint64_t> right;
      for (std::size_t i = 0; i < all.a.size(); ++i) right.push_back(expected(what, type, all.a[i], all.b[i]));
      on_every_target([&] { EXPECT_EQ(reduced(what, type, all), right) << name_of(what) << name_of(type); });
    }
  }
}

TEST(kernel, f16_and_bf16_break_ties_towards_even_and_overflow_to_infinity) {
  on_every_target([] {
    const auto sum_of = [](dtype type, double a, double b) {
      return value_of(type, reduced(kernel::sum, type, bits_of(type, a), bits_of(type, b)));
    };
    EXPECT_EQ(sum_of(dtype::f16, 2048, 1), 2048);
    EXPECT_EQ(sum_of(dtype::f16, 2050, 1), 2052);
    EXPECT_EQ(sum_of(dtype::f16, 65504, 15), 65504);
    EXPECT_EQ(sum_of(dtype::f16, 65504, 16), std::numeric_limits<double>::infinity());
    EXPECT_EQ(sum_of(dtype::f16, 0x1p-24, 0x1p-24), 0x1p-23);
    EXPECT_EQ(sum_of(dtype::bf16, 256, 1), 256);
    EXPECT_EQ(sum_of(dtype::bf16, 258, 1), 260);
    EXPECT_EQ(sum_of(dtype::bf16, 258, -1), 256);
    EXPECT_EQ(sum_of(dtype::bf16, 0x1.FEp127, 0x1p119), std::numeric_limits<double>::infinity());
  });
}

// ---- divide

std::uint64_t quotient_of_integers(dtype type, std::uint64_t bits, std::uint64_t divisor) {
  __extension__ using wide = __int128;
  const auto by = static_cast<wide>(divisor);
  wide value = static_cast<wide>(bits);
  if (type == dtype::i8) value = static_cast<std::int8_t>(bits);
  if (type == dtype::i32) value = static_cast<std::int32_t>(bits);
  if (type == dtype::i64) value = static_cast<std::int64_t>(bits);
  wide below = value / by;
  if (below * by > value) --below;
  const wide twice = 2 * (value - below * by);
  return low_bytes(static_cast<std::uint64_t>(below + (twice > by || (twice == by && below % 2 != 0) ? 1 : 0)), type);
}

/// Divisors near two kinds of limits. Up to the first limit, f32 and f64 represent all integers exactly. Up to the
/// second limit, f16 and bf16 quotients are rounded correctly.
constexpr std::uint64_t k_divisors[] = {1,
                                        2,
                                        3,
                                        7,
                                        48,
                                        255,
                                        1025,
                                        8191,
                                        8192,
                                        8193,
                                        65535,
                                        65536,
                                        65537,
                                        (1U << 24) - 1,
                                        1U << 24,
                                        (1U << 24) + 1,
                                        0xFFFFFFFF,
                                        std::uint64_t{1} << 53,
                                        (std::uint64_t{1} << 53) + 1,
                                        std::uint64_t{1} << 63,
                                        ~std::uint64_t{0}};

TEST(divide, matches_the_oracle_and_every_target_agrees) {
  SCOPED_TRACE(k_seed);
  for (const dtype type : k_all_dtypes) {
    const std::vector<std::uint64_t> in = draw_operands(type, 3001).a;
    for (const std::uint64_t divisor : k_divisors) {
      std::vector<std::uint64_t> right;
      for (const std::uint64_t bits : in)
        right.push_back(is_floating(type) ? quotient(type, bits, divisor) : quotient_of_integers(type, bits, divisor));
      on_every_target([&] { EXPECT_EQ(divided(type, in, divisor), right) << name_of(type) << " / " << divisor; });
    }
  }
}

TEST(divide, rounds_16_bits_once_whatever_the_divisor) {
  for (const dtype type : {dtype::f16, dtype::bf16}) {
    std::vector<std::uint64_t> all;
    for (std::uint64_t bits = 0; bits < 0x10000; ++bits) all.push_back(bits);
    for (const std::uint64_t divisor : {3U, 8189U, 8199U, 8207U, 65069U, 65791U, 65957U}) {
      std::vector<std::uint64_t> right;
      for (const std::uint64_t bits : all) right.push_back(quotient(type, bits, divisor));
      EXPECT_EQ(divided(type, all, divisor), right) << name_of(type) << " / " << divisor;
    }
  }
}

/// Expects that the sum of `divisor` equal numbers, divided by `divisor`, gives the same number again.
template <class T>
void expect_mean_of_equals(dtype type, T greatest, std::uint64_t divisor) {
  std::vector<T> sums, equals;
  for (T it = 1; it <= greatest; ++it) equals.push_back(it), sums.push_back(it * static_cast<T>(divisor));
  find_divide(type)(sums.data(), sums.data(), sums.size(), divisor);
  EXPECT_EQ(sums, equals) << name_of(type) << " / " << divisor;
}

TEST(divide, makes_of_the_sum_of_equal_numbers_that_number) {
  for (const std::uint64_t divisor : {3U, 7U, 14U, 49U}) {
    expect_mean_of_equals<float>(dtype::f32, 200'000, divisor);
    expect_mean_of_equals<double>(dtype::f64, 200'000, divisor);
    expect_mean_of_equals<std::int32_t>(dtype::i32, 200'000, divisor);
    expect_mean_of_equals<std::int64_t>(dtype::i64, 200'000, divisor);
  }
}

TEST(divide, rounds_integers_half_to_even_over_all_their_range) {
  const auto signed_quotient = [](std::int64_t a, std::uint64_t divisor) {
    find_divide(dtype::i64)(&a, &a, 1, divisor);
    return a;
  };
  using limits = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(signed_quotient(147, 98), 2);
  EXPECT_EQ(signed_quotient(-147, 98), -2);
  EXPECT_EQ(signed_quotient(245, 98), 2);
  EXPECT_EQ(signed_quotient(limits::max(), 1), limits::max());
  EXPECT_EQ(signed_quotient(limits::min(), 1), limits::min());
  EXPECT_EQ(signed_quotient(limits::min(), std::uint64_t{1} << 63), -1);
  EXPECT_EQ(signed_quotient(limits::min(), ~std::uint64_t{0}), -1) << "2^63 is more than half";
  EXPECT_EQ(signed_quotient(limits::max(), ~std::uint64_t{0}), 0);
}

TEST(divide, touches_exactly_its_elements_also_in_place) {
  guarded_memory memory(1001 * 8 + 64), source(1001 * 8);
  on_every_target([&] {
    for (const dtype type : k_all_dtypes)
      for (const std::size_t count : k_counts)
        for (const auto& [in_place, divisor] : {std::pair{false, 3UL}, {true, 3UL}, {false, ~0UL}, {true, ~0UL}}) {
          std::byte* const c = memory.last(count * size_of(type));
          std::byte* const a = in_place ? c : source.last(count * size_of(type));
          std::fill(c - 64, memory.last(0), std::byte{0x3C});
          std::fill(a, a + count * size_of(type), std::byte{0});
          find_divide(type)(a, c, count, divisor);
          ASSERT_TRUE(std::all_of(c - 64, c, [](std::byte value) { return value == std::byte{0x3C}; }));
          ASSERT_TRUE(std::all_of(c, memory.last(0), [](std::byte value) { return value == std::byte{0}; }));
        }
  });
}

TEST(divide, exists_for_numbers_only) {
  on_every_target([] {
    for (const dtype type : k_all_dtypes)
      EXPECT_TRUE(find_divide(type) != nullptr && supports(kernel::divide, type)) << name_of(type);
  });
  for (const dtype type : k_all_items) EXPECT_TRUE(find_divide(type) == nullptr && !supports(kernel::divide, type));
  EXPECT_EQ(find_divide(dtype{200}), nullptr);
  EXPECT_EQ(find_reduce(kernel::divide, dtype::f32), nullptr);
  EXPECT_EQ(name_of(kernel::divide), "divide");
}

}  // namespace
}  // namespace lsched
