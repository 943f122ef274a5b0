// Tests the rows of the kernel table against a second description of each family of kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "ops/op.h"

namespace lsched {
namespace {

bool is_among(kernel what, std::initializer_list<kernel> some) { return std::ranges::find(some, what) != some.end(); }

bool is_adaptive(kernel what) { return is_among(what, {kernel::dot_norms, kernel::adasum}); }
bool is_about_lengths(kernel what) { return is_among(what, {kernel::measure, kernel::lay_out}); }

TEST(kernel_table, has_a_row_with_a_name_of_its_own_for_every_kernel) {
  std::set<std::string_view> names;
  for (const kernel_row& row : k_kernel_rows) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(name_of(row.what), row.name);
    EXPECT_EQ(&row_of(row.what), &row);
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kernel::derive) + 1);
  EXPECT_EQ(row_of(kernel{200}).what, kernel::none);
  EXPECT_EQ(name_of(kernel{200}), "unknown");
}

TEST(kernel_table, kernels_exist_for_the_dtypes_of_their_family) {
  for (const kernel_row& row : k_kernel_rows) {
    const auto exists = [&](dtype type) {
      if (row.what == kernel::none) return false;
      if (row.what == kernel::copy || is_about_lengths(row.what) || is_function(row.what)) return true;
      if (is_adaptive(row.what)) return is_floating(type);
      if (is_item(type)) return false;
      return row.what < kernel::land || row.what > kernel::bxor || !is_floating(type);
    };
    for (const auto& all : {std::vector<dtype>(k_all_dtypes.begin(), k_all_dtypes.end()),
                            std::vector<dtype>(k_all_items.begin(), k_all_items.end())})
      for (const dtype type : all) EXPECT_EQ(supports(row.what, type), exists(type)) << row.name << name_of(type);
  }
}

TEST(kernel_table, kernels_have_the_operands_of_their_family) {
  for (const kernel_row& row : k_kernel_rows) {
    const bool is_some = row.what != kernel::none;
    EXPECT_EQ(row.a.is_needed(), is_some) << row.name;
    EXPECT_EQ(row.c.is_needed(), is_some) << row.name;
    EXPECT_EQ(row.b.is_needed(), is_reduction(row.what) || is_adaptive(row.what)) << row.name;
    EXPECT_EQ(row.b.need == operand_need::optional, is_function(row.what)) << row.name;
    EXPECT_EQ(row.s.is_needed(), row.what == kernel::adasum) << row.name;
    EXPECT_EQ(is_reduction(row.what), row.what >= kernel::sum && row.what <= kernel::user) << row.name;
    EXPECT_EQ(is_function(row.what), row.what >= kernel::split) << row.name;
    EXPECT_EQ(row.is(trait::merges), is_reduction(row.what) || row.what == kernel::adasum) << row.name;
  }
}

TEST(kernel_table, operands_are_of_the_op_but_for_sums_and_lengths) {
  for (const kernel_row& row : k_kernel_rows) {
    if (row.what == kernel::none || is_function(row.what)) continue;
    const op all{.kind = op_kind::compute,
                 .what = row.what,
                 .type = dtype::f16,
                 .count = 5,
                 .a = {0, 0},
                 .b = {1, 0},
                 .c = {2, 0},
                 .s = {3, 0}};
    for (const operand& it : own_operands_of(all)) {
      const bool is_sums =
          it.which == &op::s ? row.what == kernel::adasum : it.which == &op::c && row.what == kernel::dot_norms;
      const bool is_lengths =
          (it.which == &op::a && row.what == kernel::lay_out) || (it.which == &op::c && row.what == kernel::measure);
      EXPECT_EQ(it.type, is_sums ? dtype::f64 : is_lengths ? dtype::u64 : dtype::f16) << row.name;
      EXPECT_EQ(it.count, is_sums ? k_dot_sums : 5) << row.name;
      EXPECT_EQ(it.is_written, it.which == &op::c) << row.name;
      EXPECT_EQ(it.is_sums, is_sums) << row.name;
    }
  }
}

}  // namespace
}  // namespace lsched
