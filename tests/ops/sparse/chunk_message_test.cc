// Tests of SparseLoCo's messages, against a reader of single bits that shares no code with the library.
#include "ops/sparse/chunk_message.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/ops/chunk_reader.h"

namespace lsched {
namespace {

using places = std::vector<std::uint16_t>;
using bytes = std::vector<std::uint8_t>;

places all_places(std::size_t count) {
  places all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(static_cast<std::uint16_t>(i));
  return all;
}

bytes encoded(dtype type, const elements& residual, places chosen, std::size_t slots) {
  const dense_in_memory chunk(type, residual);
  const fenced_bytes message(chunk_message_bytes(type, slots), 64);
  chunk_kernels_of(type).encode(chunk.data(), chosen.data(), chosen.size(), slots, message.data());
  EXPECT_TRUE(message.is_intact());
  bytes all(chunk_message_bytes(type, slots));
  std::memcpy(all.data(), message.data(), all.size());
  return all;
}

list decoded(dtype type, const bytes& message, std::size_t slots, std::size_t elements) {
  const list_in_memory items(type, slots);
  const std::size_t count =
      chunk_kernels_of(type).decode(reinterpret_cast<const std::byte*>(message.data()), slots, elements, items.data());
  EXPECT_TRUE(items.is_intact());
  return items.content(count);
}

elements real(dtype type, std::initializer_list<double> values) {
  elements all;
  for (const double value : values) all.push_back(bits_of(type, value));
  return all;
}

TEST(ChunkMessage, has_a_size_that_depends_on_the_number_of_slots_only) {
  EXPECT_EQ(chunk_message_bytes(dtype::f32, 64) * 8, 64 * (12 + 2) + 2 * 16);
  EXPECT_EQ(chunk_message_bytes(dtype::f64, 64) * 8, 64 * (12 + 2) + 2 * 32);
  EXPECT_EQ(chunk_message_bytes(dtype::f32, 0), 0U);
  EXPECT_EQ(chunk_message_bytes(dtype::f32, 1), 4U + 1 + 2);
  EXPECT_EQ(chunk_message_bytes(dtype::f32, 5), 4U + 2 + 8);
}

/// The smaller group has 4, -4 and 7, with the mean 5. The larger group has 12 and -13, with the mean 12.5. The last
/// element is too small beside -13, so two slots are empty, and repeat the last index.
TEST(ChunkMessage, has_exactly_these_bits) {
  elements residual(4096, 0);
  const places at{1, 0x234, 0x235, 0xABC, 0xFFE, 0xFFF};
  const elements values = real(dtype::f32, {4, -4, 12, 7, -13, 1e-9});
  for (std::size_t i = 0; i < at.size(); ++i) residual[at[i]] = values[i];
  EXPECT_EQ(encoded(dtype::f32, residual, at, 7),
            (bytes{0xA0, 0x40, 0x48, 0x41,        // 5 and 12.5
                   0b00'01'10'00, 0b00'00'00'11,  // low, -low, high, low; -high
                   0x01, 0x40, 0x23, 0x35, 0xC2, 0xAB, 0xFE, 0xEF, 0xFF, 0xFE, 0x0F}));
}

TEST(ChunkMessage, one_level_serves_equal_elements) {
  const elements residual = real(dtype::f32, {3, -3, 3});
  EXPECT_EQ(decoded(dtype::f32, encoded(dtype::f32, residual, all_places(3), 3), 3, 3),
            (list{{0, residual[0]}, {1, residual[1]}, {2, residual[2]}}));
}

TEST(ChunkMessage, without_elements_it_decodes_to_nothing) {
  for (const dtype type : {dtype::f32, dtype::f64}) {
    EXPECT_EQ(decoded(type, encoded(type, {0, 0}, {}, 2), 2, 2), list{});
    EXPECT_EQ(encoded(type, {0, 0}, {}, 2), bytes(chunk_message_bytes(type, 2), 0));
  }
}

TEST(ChunkMessage, elements_that_are_not_finite_share_the_high_level) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const dtype type = dtype::f32;
  EXPECT_EQ(decoded(type, encoded(type, real(type, {2, infinity, -infinity, 3}), all_places(4), 4), 4, 4),
            (list{{0, bits_of(type, 2.5)},
                  {1, bits_of(type, infinity)},
                  {2, bits_of(type, -infinity)},
                  {3, bits_of(type, 2.5)}}));
  const elements residual = real(type, {2, infinity, std::nan("")});
  const list some = decoded(type, encoded(type, residual, all_places(3), 3), 3, 3);
  ASSERT_EQ(some.size(), 3U);
  EXPECT_EQ(some[0], (entry{0, bits_of(type, 2)}));
  EXPECT_TRUE(is_nan(type, some[1].value) && is_nan(type, some[2].value));
  const dense_in_memory rest(type, residual);
  const list_in_memory items(type, some);
  chunk_kernels_of(type).subtract(items.data(), some.size(), rest.data());
  EXPECT_EQ(rest.content(), elements(3, 0)) << "a residual of infinity or NaN becomes 0";
}

/// Checks the values of a message, and that element = value + rest without rounding. The difference of two f32 is exact
/// in f64, and the difference of two f64 is checked by an addition and a subtraction that must both be exact.
void expect_exact(dtype type, const elements& residual, const places& chosen, std::size_t slots) {
  const bytes message = encoded(type, residual, chosen, slots);
  const list sent = decoded(type, message, slots, residual.size());
  ASSERT_EQ(sent, read_chunk(type, message.data(), slots));
  const dense_in_memory rest(type, residual);
  const list_in_memory items(type, sent);
  chunk_kernels_of(type).subtract(items.data(), sent.size(), rest.data());
  const elements left = rest.content();
  elements expected = residual;
  for (const entry& it : sent) {
    ASSERT_TRUE(std::ranges::binary_search(chosen, it.index));
    const double before = value_of(type, residual[it.index]), value = value_of(type, it.value),
                 after = value_of(type, left[it.index]);
    expected[it.index] = left[it.index];
    if (!std::isfinite(before)) continue;
    ASSERT_EQ(std::signbit(before), std::signbit(value));
    ASSERT_LE(std::abs(value), 2 * std::abs(before));
    ASSERT_LE(std::abs(after), std::abs(before));
    ASSERT_EQ(value + after, before) << before << " was sent as " << value;
    ASSERT_EQ(before - value, after);
    ASSERT_EQ(before - after, value);
  }
  ASSERT_EQ(left, expected) << "an element that was not sent has changed";
}

TEST(ChunkMessage, error_feedback_is_exact) {
  for (const dtype type : {dtype::f32, dtype::f64})
    for (const std::size_t count : {1u, 2u, 3u, 63u, 64u, 65u, 1000u, 4096u})
      for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        std::mt19937_64 draw(seed);
        std::vector<pattern> all = patterns(type, count, seed);
        all.push_back({"wide range", elements(count)});
        for (std::uint64_t& it : all.back().values)
          it = bits_of(type, std::ldexp(drawn_normal(draw), static_cast<int>(draw() % 50) - 25));
        for (const pattern& it : all) {
          SCOPED_TRACE(::testing::Message() << name_of(type) << ", " << count << ", " << it.name << ", seed " << seed);
          places some;
          for (std::size_t i = 0; i < count; ++i)
            if (draw() % 3 == 0 && magnitude_of(type, it.values[i]) != 0) some.push_back(static_cast<std::uint16_t>(i));
          expect_exact(type, it.values, some, std::max<std::size_t>(1, some.size() + draw() % 2));
          if (HasFailure()) return;
        }
      }
}

/// Any bytes decode to a valid list of the chunk.
TEST(ChunkMessage, a_damaged_message_reaches_no_other_memory) {
  std::mt19937_64 draw(11);
  for (int round = 0; round < 500; ++round) {
    const dtype type = round % 2 == 0 ? dtype::f32 : dtype::f64;
    const std::size_t slots = draw() % 70 + 1, count = draw() % 300 + 1;
    bytes message(chunk_message_bytes(type, slots));
    for (std::uint8_t& it : message) it = static_cast<std::uint8_t>(draw());
    std::int64_t last = -1;
    for (const entry& it : decoded(type, message, slots, count)) {
      ASSERT_GT(it.index, last);
      ASSERT_LT(it.index, count);
      last = it.index;
    }
  }
}

}  // namespace
}  // namespace lsched
