#include "libsched/work.h"

#include <gtest/gtest.h>

#include "libsched/builder.h"

namespace lsched::testing {
namespace {

TEST(work, of_a_row_is_that_of_its_pairs_and_its_sums) {
  builder to({0, 2});
  const buffer_id row = to.scratch(dtype::f32, 40), sums = to.scratch(dtype::f64, 20), out = to.scratch(dtype::f32, 10);
  to.copy({row, 0}, {out, 0}, 10);
  to.reduce(kernel::max, {row, 0}, {row, 10}, {out, 0}, 10);
  to.dot_norms({row, 0}, {row, 10}, {sums, 0}, 10);
  to.gram(2, {row, 0}, {row, 10}, {sums, 0}, 10);
  to.gram(4, {row, 0}, {row, 10}, {sums, 0}, 9);
  to.gram_adasum({2, 1}, {row, 0}, {row, 10}, {sums, 0}, {out, 0}, 10);
  to.gram_adasum({4, 1}, {row, 0}, {row, 10}, {sums, 0}, {out, 0}, 10);
  to.send(1, 0, {row, 0}, 7);
  const auto made = to.compile();
  ASSERT_TRUE(made) << made.error().text;
  const std::uint64_t wanted[] = {40, 40, 40, 40, 120, 40, 120, 28};
  for (op_id id = 0; id < 8; ++id) EXPECT_EQ(bytes_of_work(**made, (*made)->ops()[id]), wanted[id]) << id;
}

}  // namespace
}  // namespace lsched::testing
