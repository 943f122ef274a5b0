// Compares every device kernel with the host kernel of the same name, bit by bit.
#include <cmath>

#include "ops/adasum/adasum.h"
#include "ops/elementwise/elementwise.h"
#include "tests/offload/cuda/operands.h"

namespace lsched::testing {
namespace {

constexpr std::uint64_t k_seed = 271;
constexpr std::array k_floats{dtype::f16, dtype::bf16, dtype::f32, dtype::f64};
constexpr double k_infinity = std::numeric_limits<double>::infinity();

std::string name(kernel what, dtype type) { return std::string(name_of(what)) + " " + std::string(name_of(type)); }

// ---- reductions

void try_reduction(kernel what, dtype type, const trial& it) {
  patterns values(type, k_seed + it.count);
  const operand a = values.draw(it.count, it.shifts[0]), b = values.draw_like(a, it.count, it.shifts[1]);
  operand wanted(type, it.count, 0), c(type, it.count, it.shifts[2]);
  find_reduce(what, type)(a.data(), b.data(), wanted.data(), it.count);
  const device_kernel device = find_device_kernel(what, type).value();
  const auto reduce = [&](const operand& lower, const operand& upper, operand& result) {
    launch(device, {.a = lower.data(), .b = upper.data(), .c = result.data(), .count = it.count}, it.is_narrow);
    expect_same_bits(result, wanted, type);
  };
  reduce(a, b, c);
  operand in_a = a, in_b = b;
  reduce(in_a, b, in_a);
  reduce(a, in_b, in_b);
}

TEST(device_kernels, reduce_with_the_bits_of_the_host) {
  for (const kernel what : k_all_reductions)
    for (const dtype type : k_all_dtypes) {
      if (!supports(what, type)) continue;
      SCOPED_TRACE(name(what, type));
      for (const trial& it : trials(many())) {
        SCOPED_TRACE(it);
        ASSERT_NO_FATAL_FAILURE(try_reduction(what, type, it));
      }
    }
}

// ---- division

constexpr std::uint64_t k_one = 1;

/// Returns small divisors, and divisors at the limits of SIMD lanes and of integer types. Returns also the smallest
/// divisors for which a 16-bit quotient computed in f32 would be wrong.
std::vector<std::uint64_t> divisors() {
  std::vector<std::uint64_t> all{1, 2, 3, 7, 10, 48, 100, 1000};
  for (const int width : {8, 13, 16, 24, 31, 32, 53, 62, 63})
    all.insert(all.end(), {(k_one << width) - 1, k_one << width, (k_one << width) + 1});
  all.insert(all.end(), {8195, 8199, 65791, 66003, ~std::uint64_t{0}});
  return all;
}

void try_division(dtype type, std::uint64_t divisor, const trial& it) {
  const operand a = patterns(type, k_seed + it.count + divisor).draw(it.count, it.shifts[0]);
  operand wanted(type, it.count, 0), c(type, it.count, it.shifts[2]), in_a = a;
  find_divide(type)(a.data(), wanted.data(), it.count, divisor);
  const device_kernel device = find_device_kernel(kernel::divide, type).value();
  for (operand* result : {&c, &in_a}) {
    const std::byte* from = result == &c ? a.data() : in_a.data();
    launch(device, {.a = from, .c = result->data(), .count = it.count, .divisor = divisor}, it.is_narrow);
    expect_same_bits(*result, wanted, type);
  }
}

TEST(device_kernels, divide_with_the_bits_of_the_host) {
  const std::vector<std::uint64_t> all = divisors();
  for (const dtype type : k_all_dtypes)
    for (const std::uint64_t divisor : all) {
      SCOPED_TRACE(name(kernel::divide, type) + " by " + std::to_string(divisor));
      for (const trial& it : trials(many() / all.size() + 1)) {
        SCOPED_TRACE(it);
        ASSERT_NO_FATAL_FAILURE(try_division(type, divisor, it));
      }
    }
}

/// The dividends are the multiples of half the divisor, and the numbers next to these multiples.
TEST(device_kernels, divide_ties_to_even) {
  for (const dtype type : k_all_dtypes)
    for (const std::uint64_t divisor : {2u, 6u, 14u, 250u}) {
      const std::size_t count = 3 * 256;
      operand a(type, count, 0), wanted(type, count, 0), c(type, count, 0);
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t value = divisor / 2 * (i / 3) + i % 3 - 1;
        const std::uint64_t bits = is_floating(type) ? bits_of(type, static_cast<double>(value)) : value;
        write_element(a.data(), i, type, bits);
      }
      find_divide(type)(a.data(), wanted.data(), count, divisor);
      const device_kernel device = find_device_kernel(kernel::divide, type).value();
      launch(device, {.a = a.data(), .c = c.data(), .count = count, .divisor = divisor}, false);
      ASSERT_NO_FATAL_FAILURE(expect_same_bits(c, wanted, type)) << name_of(type) << " by " << divisor;
    }
}

// ---- conversion

constexpr std::array k_factors{1.0,
                               0.125,
                               -2.0,
                               1.0 / 3,
                               -7e5,
                               0x1p-126,
                               0x1p-127,
                               0x1p127,
                               0x1p-1000,
                               0x1p1000,
                               0x1.8p-1040,
                               k_infinity,
                               std::bit_cast<double>(0xFFF0000000000005),
                               0.0,
                               -0.0};

void try_conversion(dtype from, dtype to, double factor, const trial& it) {
  const operand a = patterns(from, k_seed + it.count).draw(it.count, it.shifts[0]);
  operand wanted(to, it.count, 0), c(to, it.count, it.shifts[2]);
  find_convert(from, to)(a.data(), it.count, factor, wanted.data());
  const device_kernel device = find_device_conversion(from, to).value();
  launch(device, {.a = a.data(), .c = c.data(), .count = it.count, .x = factor}, it.is_narrow);
  expect_same_bits(c, wanted, to);
}

TEST(device_kernels, convert_with_the_bits_of_the_host) {
  for (const dtype from : k_floats)
    for (const dtype to : k_floats)
      for (const double factor : k_factors) {
        SCOPED_TRACE(std::string(name_of(from)) + " to " + std::string(name_of(to)) + " times " +
                     std::to_string(factor));
        for (const trial& it : trials(many() / 4)) {
          SCOPED_TRACE(it);
          ASSERT_NO_FATAL_FAILURE(try_conversion(from, to, factor, it));
        }
      }
}

/// Converts all values of the short formats, the midpoints of adjacent values, and the numbers next to these values and
/// midpoints. With the factor 0.5, some results are ties between subnormals.
TEST(device_kernels, convert_rounds_with_the_bits_of_the_host) {
  const std::uint64_t step = sampled() ? 97 : 1;
  for (const dtype from : {dtype::f32, dtype::f64})
    for (const dtype to : {dtype::f16, dtype::bf16}) {
      std::vector<std::uint64_t> bits;
      for (std::uint64_t it = 0; it < 0x10000; it += step) {
        const double value = value_of(to, it), next = value_of(to, it + 1);
        for (const double middle : {value, value + (next - value) / 2})
          for (const std::uint64_t off : {~std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{1}})
            bits.push_back(bits_of(from, middle) + off);
      }
      operand a(from, bits.size(), 0), wanted(to, bits.size(), 0), c(to, bits.size(), 0);
      for (std::size_t i = 0; i < bits.size(); ++i) write_element(a.data(), i, from, bits[i]);
      const device_kernel device = find_device_conversion(from, to).value();
      for (const double factor : {1.0, 0.5}) {
        find_convert(from, to)(a.data(), bits.size(), factor, wanted.data());
        launch(device, {.a = a.data(), .c = c.data(), .count = bits.size(), .x = factor}, false);
        ASSERT_NO_FATAL_FAILURE(expect_same_bits(c, wanted, to)) << name_of(from) << " to " << name_of(to);
      }
    }
}

// ---- weighted sums

/// A number that is not a tie of bf16, but becomes a tie if it is first rounded to f32.
constexpr double k_almost_tie = 1 + 0x1p-8 + 0x1p-30;

/// Pairs of coefficients. The short formats, f16 and bf16, each have a moderate range of coefficients. The pairs lie in
/// both ranges, in one range or in neither range, or at the ends of the ranges.
constexpr std::array<std::array<double, 2>, 14> k_coefficients{{{0x1p9 * k_almost_tie, 0},
                                                                {0x1p-101 * k_almost_tie, 0},
                                                                {0.75, 1.0},
                                                                {1.0 / 3, -2.0 / 7},
                                                                {1e-30, 511.9},
                                                                {0, -0.5},
                                                                {512, 0x1p-100},
                                                                {512.1, 1},
                                                                {1, 0x1.fffffp-101},
                                                                {0x1p64, -0x1p64},
                                                                {0x1.00001p64, 1},
                                                                {1e40, -1e-40},
                                                                {std::bit_cast<double>(0x7FF0000000000007), 1},
                                                                {k_infinity, -0.0}}};

void try_scaled_add(dtype type, double x, double y, const trial& it) {
  patterns values(type, k_seed + it.count);
  const operand a = values.draw(it.count, it.shifts[0]), b = values.draw_like(a, it.count, it.shifts[1]);
  operand wanted(type, it.count, 0), c(type, it.count, it.shifts[2]);
  find_scaled_add(type)(x, a.data(), y, b.data(), wanted.data(), it.count);
  const device_kernel device = find_device_kernel(kernel::adasum, type).value();
  const auto add = [&](const operand& lower, const operand& upper, operand& result) {
    launch(device, {.a = lower.data(), .b = upper.data(), .c = result.data(), .count = it.count, .x = x, .y = y},
           it.is_narrow);
    expect_same_bits(result, wanted, type);
  };
  add(a, b, c);
  operand in_a = a, in_b = b;
  add(in_a, b, in_a);
  add(a, in_b, in_b);
}

TEST(device_kernels, add_weighted_with_the_bits_of_the_host) {
  for (const dtype type : k_floats)
    for (const auto& [x, y] : k_coefficients) {
      SCOPED_TRACE(std::string(name_of(type)) + " by " + std::to_string(x) + " and " + std::to_string(y));
      for (const trial& it : trials(many() / 4)) {
        SCOPED_TRACE(it);
        ASSERT_NO_FATAL_FAILURE(try_scaled_add(type, x, y, it));
      }
    }
}

// ---- dots

/// Returns numbers whose sum depends on the order of additions. If `is_hard` is true, returns values for which wrong
/// arithmetic is most likely to show.
operand draw_for_dots(dtype type, bool is_hard, const trial& it, std::size_t which) {
  patterns values(type, k_seed + it.count + which);
  operand drawn = values.draw(it.count, it.shifts[which]);
  std::mt19937_64 random(k_seed + which);
  for (std::size_t i = 0; i < it.count && !is_hard; ++i)
    write_element(drawn.data(), i, type, bits_of(type, std::ldexp(static_cast<double>(random() >> 11), -52) - 1));
  return drawn;
}

void try_dots(dtype type, bool is_hard, const trial& it) {
  const operand a = draw_for_dots(type, is_hard, it, 0), b = draw_for_dots(type, is_hard, it, 1);
  operand wanted(dtype::f64, k_dot_sums, 0), c(dtype::f64, k_dot_sums, it.shifts[2]);
  std::array<double, k_dot_sums> sums{};
  find_dot_norms(type)(a.data(), b.data(), it.count, sums.data());
  std::memcpy(wanted.data(), sums.data(), sizeof sums);
  const device_kernel device = find_device_kernel(kernel::dot_norms, type).value();
  launch(device, {.a = a.data(), .b = b.data(), .c = c.data(), .count = it.count}, it.is_narrow);
  expect_same_bits(c, wanted, dtype::f64);
}

/// Returns trials with counts around the ends of rows, blocks and groups.
std::vector<trial> trials_of_dots() {
  std::vector<trial> all{{0}, {17}, {1025}, {3000, {1, 0, 1}}, {65537}};
  if (sampled()) return all;
  all.insert(all.end(), {{1}, {15}, {16}, {32}, {1023}, {1024}, {2049}, {3000, {0, 1, 0}}, {65535}, {65536}});
  all.insert(all.end(), {{200003}, {200003, {}, true}, {200003, {1, 0, 1}, true}, {1'000'003}});
  return all;
}

TEST(device_kernels, dots_have_the_bits_of_the_host) {
  for (const dtype type : k_floats)
    for (const bool is_hard : {false, true}) {
      SCOPED_TRACE(name(kernel::dot_norms, type) + (is_hard ? " of anything" : ""));
      for (const trial& it : trials_of_dots()) {
        SCOPED_TRACE(it);
        ASSERT_NO_FATAL_FAILURE(try_dots(type, is_hard, it));
      }
    }
}

TEST(device_kernels, dots_of_what_is_null_are_zeros) {
  const std::vector<float> numbers(3000, 1.0F);
  const device_kernel device = find_device_kernel(kernel::dot_norms, dtype::f32).value();
  for (const bool is_first : {false, true}) {
    std::array<double, k_dot_sums> sums{1, 2, 3};
    launch(device,
           {.a = is_first ? nullptr : numbers.data(),
            .b = is_first ? numbers.data() : nullptr,
            .c = sums.data(),
            .count = numbers.size()},
           false);
    EXPECT_EQ(sums, (std::array{0.0, 0.0, 0.0}));
  }
}

/// The second pass adds the sums of up to 256 groups at a time. The test draws the sums of the groups at random,
/// because a vector with more than 256 groups would be too long for a test.
TEST(device_kernels, sums_of_groups_are_added_from_first_to_last) {
  std::mt19937_64 random(k_seed);
  std::vector<double> workspace(3 * 700);
  for (double& it : workspace) it = std::ldexp(static_cast<double>(random() >> 11), -52) - 1;
  std::array<double, 3> wanted{}, sums{};
  for (std::size_t i = 0; i < workspace.size(); ++i) wanted[i % 3] += workspace[i];
  const device_kernel device = find_device_kernel(kernel::dot_norms, dtype::f64).value();
  const device_arguments with{.a = workspace.data(),
                              .b = workspace.data(),
                              .c = sums.data(),
                              .workspace = workspace.data(),
                              .count = 699 * 65536 + 1};
  const device_grid grid = device.grid_of_second(with.count);
  emulated(device.second).run(with, grid.blocks, grid.threads);
  EXPECT_EQ(sums, wanted);
}

}  // namespace
}  // namespace lsched::testing
