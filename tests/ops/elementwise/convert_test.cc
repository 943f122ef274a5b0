// Tests the conversions of elementwise.h on every SIMD target of this CPU, and find_multiply(), against roundings that
// are computed from the parameters of the floating formats (elements.h).
#include "ops/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/ops/elements.h"

namespace lsched {
namespace {

constexpr std::array k_floats{dtype::f16, dtype::bf16, dtype::f32, dtype::f64};

using elements = std::vector<std::uint64_t>;

/// Converts values between buffers that end directly before inaccessible pages.
elements converted(dtype from, const elements& values, double factor, dtype to) {
  guarded_memory input(values.size() * size_of(from)), output(values.size() * size_of(to));
  std::byte* const in = input.last(values.size() * size_of(from));
  std::byte* const out = output.last(values.size() * size_of(to));
  for (std::size_t i = 0; i < values.size(); ++i) write_element(in, i, from, values[i]);
  find_convert(from, to)(in, values.size(), factor, out);
  elements found(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) found[i] = read_element(out, i, to);
  return found;
}

void expect_right(dtype from, const elements& values, double factor, dtype to) {
  elements wanted(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) wanted[i] = bits_of(to, factor * value_of(from, values[i]));
  on_every_target([&] {
    const elements found = converted(from, values, factor, to);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(found[i], wanted[i]) << name_of(from) << " " << value_of(from, values[i]) << " times " << factor
                                     << " to " << name_of(to);
  });
}

/// Returns hard values, and values that are likely to be rounded wrongly. For a 16-bit type, the latter are all bit
/// patterns. For a wider type, they are all values of the 16-bit type `to`, the midpoints between them, and both
/// neighbours of each of these numbers. The function uses only every `stride`-th bit pattern.
elements telling_values(dtype type, dtype to, std::uint64_t stride) {
  elements values = hard_values(type);
  for (std::uint64_t bits = 0; bits < 0x10000; bits += stride) {
    if (size_of(type) == 2) values.push_back(bits);
    if (size_of(type) == 2 || size_of(to) != 2) continue;
    const double value = value_of(to, bits), next = value_of(to, bits + 1);
    for (const double it : {value, value + (next - value) / 2})
      for (const int step : {-1, 0, 1})
        if (std::isfinite(it)) values.push_back(low_bytes(bits_of(type, it) + static_cast<std::uint64_t>(step), type));
  }
  for (std::uint64_t& it : values) it = low_bytes(it, type);
  return values;
}

TEST(Convert, rounds_to_nearest_even_wherever_that_makes_a_difference) {
  for (const dtype from : k_floats)
    for (const dtype to : k_floats) expect_right(from, telling_values(from, to, 1), 1, to);
}

TEST(Convert, multiplies_by_powers_of_two_and_rounds_once) {
  for (const dtype from : k_floats)
    for (const dtype to : k_floats)
      for (const double factor : {0x1p16, 0x1p-16, -0x1p3, 0x1p-126, 0x1p127, 0x1p-1000, 0x1p500})
        expect_right(from, telling_values(from, to, 29), factor, to);
}

TEST(Convert, multiplies_by_anything_in_f64) {
  std::mt19937_64 draw(3);
  std::normal_distribution<double> normal;
  for (const dtype from : k_floats)
    for (const dtype to : k_floats)
      for (std::size_t count = 0; count < 70; ++count) {
        elements values(count);
        for (std::uint64_t& it : values) it = bits_of(from, normal(draw));
        expect_right(from, values, std::exp(10 * normal(draw)), to);
      }
}

TEST(Convert, of_integers_does_not_exist) {
  for (const dtype integer : {dtype::i8, dtype::u64}) {
    EXPECT_EQ(find_convert(integer, dtype::f32), nullptr);
    EXPECT_EQ(find_convert(dtype::f32, integer), nullptr);
  }
}

TEST(Multiply, wraps_integers_around_and_rounds_floats_as_a_conversion_does) {
  for (const dtype type : k_all_dtypes) {
    elements values = hard_values(type);
    for (std::uint64_t& it : values) it = low_bytes(it, type);
    for (const std::uint64_t factor : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{3}, std::uint64_t{1'000'003},
                                       std::uint64_t{1} << 53, ~std::uint64_t{0}}) {
      guarded_memory input(values.size() * size_of(type)), output(values.size() * size_of(type));
      std::byte* const in = input.last(values.size() * size_of(type));
      std::byte* const out = output.last(values.size() * size_of(type));
      for (std::size_t i = 0; i < values.size(); ++i) write_element(in, i, type, values[i]);
      find_multiply(type)(in, out, values.size(), factor);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint64_t wanted = is_floating(type)
                                         ? bits_of(type, static_cast<double>(factor) * value_of(type, values[i]))
                                         : low_bytes(factor * values[i], type);
        ASSERT_EQ(read_element(out, i, type), wanted) << name_of(type) << " " << values[i] << " times " << factor;
      }
    }
  }
  for (const dtype item : k_all_items) EXPECT_EQ(find_multiply(item), nullptr);
}

}  // namespace
}  // namespace lsched
