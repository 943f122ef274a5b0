// Tests of the check that refuses results with non-finite items, and of the effect of a refusal on residuals.
#include "collectives/sparse/steps/lists.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/lists.h"

namespace lsched {
namespace {

double infinite() { return std::numeric_limits<double>::infinity(); }

TEST(result_check, refuses_what_is_not_finite_by_the_first_index) {
  for (const dtype type : k_floats)
    for (const double bad : {infinite(), -infinite(), std::nan("")}) {
      result_check check({.count = 0, .k = 9, .type = type, .nans = nan_policy::error});
      const list_in_memory good(type, list{{1, bits_of(type, 2)}, {7, infinity_of(type) - 1}});
      EXPECT_TRUE(check.accepts({good.data(), 2}, nullptr));
      EXPECT_FALSE(check.non_finite_element());
      const list_in_memory non_finite(
          type, list{{1, bits_of(type, 2)}, {5, bits_of(type, bad)}, {7, bits_of(type, 3)}, {8, infinity_of(type)}});
      EXPECT_FALSE(check.accepts({non_finite.data(), 4}, nullptr)) << name_of(type) << " " << bad;
      EXPECT_EQ(check.non_finite_element(), 5u);
      EXPECT_TRUE(check.accepts({}, nullptr));
      EXPECT_FALSE(check.non_finite_element()) << "the element is that of the last round only";
    }
}

TEST(result_check, accepts_everything_under_other_policies) {
  for (const nan_policy nans : {nan_policy::propagate, nan_policy::ignore})
    for (const dtype type : k_floats) {
      result_check check({.count = 1, .k = 9, .type = type, .nans = nans});
      const list_in_memory non_finite(type, list{{5, bits_of(type, std::nan(""))}});
      const dense_in_memory residual(residual_of(type), {infinity_of(residual_of(type))});
      EXPECT_TRUE(check.accepts({non_finite.data(), 1}, residual.data()));
      EXPECT_FALSE(check.non_finite_element());
      EXPECT_EQ(residual.content(), elements{infinity_of(residual_of(type))});
    }
}

/// Tests the largest residual values that rounding to a narrow type keeps finite. Tests also the next larger values,
/// which become infinite.
TEST(result_check, drops_what_cannot_be_sent_as_a_finite_item_and_nothing_else) {
  for (const dtype type : k_floats) {
    const dtype wide = residual_of(type);
    elements before;
    for (const double it : {0.0, -0.0, 1.0, -3e-40, 65504.0, 65519.0, 65520.0, -65520.0, 70000.0, 3e38, -3.4e38})
      before.push_back(bits_of(wide, it));
    const std::uint64_t sign = std::uint64_t{1} << (8 * size_of(wide) - 1);
    for (const std::uint64_t middle : {bits_of(dtype::f32, 65520), std::uint64_t{0x7F7F8000}, infinity_of(wide)})
      for (const std::uint64_t bits : {middle - 1, middle, middle + 1})
        before.insert(before.end(), {bits, bits | sign});
    elements after = before;
    std::size_t dropped = 0;
    for (std::uint64_t& it : after)
      if (magnitude_of(type, rounded(type, it)) >= infinity_of(type)) it = 0, ++dropped;
    EXPECT_GE(dropped, 4u);
    EXPECT_LT(dropped, after.size());
    result_check check({.count = before.size(), .k = 9, .type = type, .nans = nan_policy::error});
    const list_in_memory non_finite(type, list{{5, infinity_of(type)}});
    const dense_in_memory residual(wide, before);
    EXPECT_FALSE(check.accepts({non_finite.data(), 1}, residual.data()));
    EXPECT_EQ(residual.content(), after) << name_of(type);
    EXPECT_TRUE(residual.is_intact());
  }
}

}  // namespace
}  // namespace lsched
