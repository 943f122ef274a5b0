// Tests which device kernels exist, their names, and the grids of their launches.
#include "offload/cuda/driver/launch.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace lsched {
namespace {

std::string first_symbol(kernel what, dtype type) {
  return device_symbols()[find_device_kernel(what, type).value().first].c_str();
}

TEST(device_kernel, is_named_after_kernel_and_dtype) {
  EXPECT_EQ(first_symbol(kernel::sum, dtype::f32), "lsched_sum_f32");
  EXPECT_EQ(first_symbol(kernel::bxor, dtype::i64), "lsched_bxor_i64");
  EXPECT_EQ(first_symbol(kernel::divide, dtype::bf16), "lsched_divide_bf16");
  EXPECT_EQ(first_symbol(kernel::dot_norms, dtype::f16), "lsched_dot_norms_f16");
  EXPECT_EQ(first_symbol(kernel::adasum, dtype::f32), "lsched_scaled_add_f32");
  EXPECT_STREQ(device_symbols()[find_device_conversion(dtype::f32, dtype::bf16).value().first].c_str(),
               "lsched_convert_f32_bf16");
  const auto dots = find_device_kernel(kernel::dot_norms, dtype::f64).value();
  EXPECT_STREQ(device_symbols()[dots.second].c_str(), "lsched_dot_norms_end");
}

TEST(device_kernel, exists_for_arithmetic_that_the_library_knows) {
  for (const kernel_row& row : k_kernel_rows)
    for (const dtype type : k_all_dtypes) {
      const bool is_known = row.what == kernel::divide || row.what == kernel::dot_norms || row.what == kernel::adasum ||
                            (is_reduction(row.what) && row.what != kernel::user);
      EXPECT_EQ(find_device_kernel(row.what, type).has_value(), is_known && supports(row.what, type))
          << row.name << ' ' << name_of(type);
    }
  EXPECT_FALSE(find_device_kernel(kernel::sum, dtype::item_f32));
  EXPECT_FALSE(find_device_kernel(kernel{200}, dtype::f32));
  EXPECT_FALSE(find_device_conversion(dtype::i32, dtype::f32));
  EXPECT_FALSE(find_device_conversion(dtype::f32, dtype::item_f32));
}

TEST(device_kernel, has_a_thread_for_each_vector) {
  const auto sum = find_device_kernel(kernel::sum, dtype::f32).value();
  EXPECT_EQ(sum.grid_of_first(0), (device_grid{1, 32}));
  EXPECT_EQ(sum.grid_of_first(4 * 33), (device_grid{1, 64}));
  EXPECT_EQ(sum.grid_of_first(4 * 256), (device_grid{1, 256}));
  EXPECT_EQ(sum.grid_of_first(4 * 256 + 1), (device_grid{2, 256}));
  EXPECT_EQ(sum.grid_of_first(std::uint64_t{1} << 28), (device_grid{1 << 18, 256}));
  EXPECT_EQ(sum.grid_of_first(~std::uint64_t{0}).blocks, std::uint32_t{std::numeric_limits<std::int32_t>::max()});
  EXPECT_EQ(find_device_conversion(dtype::bf16, dtype::f64).value().grid_of_first(1024), (device_grid{2, 256}));
  EXPECT_EQ(sum.workspace_bytes(1 << 20), 0u);
  EXPECT_FALSE(sum.has_two_passes());
}

TEST(device_kernel, of_dots_has_a_block_for_each_group) {
  const auto dots = find_device_kernel(kernel::dot_norms, dtype::f16).value();
  ASSERT_TRUE(dots.has_two_passes());
  EXPECT_EQ(dots.grid_of_first(0), (device_grid{1, 32}));
  EXPECT_EQ(dots.grid_of_first(9 * 1024), (device_grid{1, 64}));
  EXPECT_EQ(dots.grid_of_first(65536), (device_grid{1, 256}));
  EXPECT_EQ(dots.grid_of_first(65537), (device_grid{2, 256}));
  EXPECT_EQ(dots.workspace_bytes(0), 0u);
  EXPECT_EQ(dots.workspace_bytes(65537), 2 * 3 * sizeof(double));
  EXPECT_EQ(dots.grid_of_second(65537), (device_grid{1, 32}));
  EXPECT_EQ(dots.grid_of_second(~std::uint64_t{0}), (device_grid{1, 256}));
}

}  // namespace
}  // namespace lsched
