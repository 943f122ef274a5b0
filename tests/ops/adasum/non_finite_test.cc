#include "ops/adasum/non_finite.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace lsched {
namespace {

const std::vector<tensor> k_tensors{{0, 2}, {2, 0}, {2, 1}, {3, 3}};

template <class T>
std::vector<std::uint8_t> found_in(const std::vector<T>& data, dtype type, non_finite_rule rule, std::uint64_t number) {
  std::vector<std::uint8_t> is_non_finite(k_tensors.size(), 9);
  const auto* bytes = reinterpret_cast<const std::byte*>(data.data());
  EXPECT_EQ(find_non_finite(bytes, type, k_tensors, rule, is_non_finite.data()), number);
  EXPECT_EQ(find_non_finite(bytes, type, k_tensors, rule, nullptr), number);
  return is_non_finite;
}

/// Checks a floating type. The arguments are the bit patterns of the largest number, of infinity, of a NaN, and of the
/// sign bit.
template <class T>
void check(dtype type, T largest, T infinity, T nan, T sign) {
  const auto minus = [sign](T value) { return static_cast<T>(value | sign); };
  const std::vector<T> data{largest, minus(infinity), minus(largest), minus(nan), largest, nan};
  using marks = std::vector<std::uint8_t>;
  EXPECT_EQ(found_in(data, type, non_finite_rule::any_element, 2), (marks{1, 0, 0, 1})) << name_of(type);
  EXPECT_EQ(found_in(data, type, non_finite_rule::first_element_nan, 1), (marks{0, 0, 0, 1})) << name_of(type);
  const std::vector<T> infinite(6, infinity);
  EXPECT_EQ(found_in(infinite, type, non_finite_rule::any_element, 3), (marks{1, 0, 1, 1})) << name_of(type);
  EXPECT_EQ(found_in(infinite, type, non_finite_rule::first_element_nan, 0), (marks{0, 0, 0, 0})) << name_of(type);
  const std::vector<T> second{largest, nan, largest, largest, nan, nan};
  EXPECT_EQ(found_in(second, type, non_finite_rule::first_element_nan, 0), (marks{0, 0, 0, 0})) << name_of(type);
}

TEST(non_finite, tensors_are_found_by_any_element_or_by_a_nan_at_their_beginning) {
  check<std::uint16_t>(dtype::f16, 0x7BFF, 0x7C00, 0x7C01, 0x8000);
  check<std::uint16_t>(dtype::bf16, 0x7F7F, 0x7F80, 0x7F81, 0x8000);
  check<std::uint32_t>(dtype::f32, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x80000000);
  check<std::uint64_t>(dtype::f64, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x7FF0000000000001, 0x8000000000000000);
}

}  // namespace
}  // namespace lsched
