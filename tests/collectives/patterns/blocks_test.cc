#include "collectives/patterns/blocks.h"

#include <gtest/gtest.h>

namespace lsched::testing {
namespace {

TEST(blocks, long_ones_begin_at_cache_lines_and_short_ones_are_even) {
  const shape data{.type = dtype::f32};
  const cut lines = cut_into_blocks(data, 1000, 7);
  for (std::uint64_t i = 0; i < 7; ++i) EXPECT_EQ(lines.begin(i) % 16, 0u);
  const cut even = cut_into_blocks(data, 889, 7);
  for (std::uint64_t i = 0; i < 7; ++i) EXPECT_EQ(even.size(i), 127u);
}

/// Expects that every element is in exactly one piece, and that the grid has at most `most` segments. No piece may be
/// longer than the first piece of its block.
void expect_sound(const block_grid& grid, rank size, std::uint64_t total, std::uint64_t most) {
  ASSERT_GE(grid.segments(), 1u);
  ASSERT_LE(grid.segments(), most);
  ASSERT_EQ(grid.total(), total);
  std::vector<int> seen(total, 0);
  for (std::uint64_t segment = 0; segment < grid.segments(); ++segment)
    for (rank block = 0; block < size; ++block) {
      const piece it = grid.at(block, segment);
      ASSERT_LE(it.count, grid.at(block, 0).count);
      for (std::uint64_t i = 0; i < it.count; ++i) ++seen.at(it.begin + i);
    }
  for (const int times : seen) ASSERT_EQ(times, 1);
}

TEST(block_grid, holds_every_element_once) {
  for (const rank size : {1, 2, 3, 5, 6, 7, 8, 13})
    for (const std::uint64_t count : {0u, 1u, 2u, 6u, 7u, 8u, 100u, 1000u, 3001u, 4096u})
      for (const std::uint64_t segment : {0u, 1u, 3u, 128u, 5000u}) {
        shape data{.count = count, .type = dtype::f32, .segment = segment};
        expect_sound(block_grid(true, data, size, 1024, 9), size, count, 9);
        data.count = 0;
        for (rank r = 0; r < size; ++r) data.counts.push_back(count * static_cast<std::uint64_t>(r % 3) / 2);
        const std::uint64_t total = block_offsets(data, size).back();
        expect_sound(block_grid(false, data, size, 1024, 9), size, total, 9);
      }
}

TEST(block_grid, has_as_many_segments_as_asked_for_within_bounds) {
  shape data{.count = 1000, .type = dtype::f32, .segment = 10};
  EXPECT_EQ(block_grid(true, data, 5, 1 << 20, 64).segments(), 20u);
  EXPECT_EQ(block_grid(true, data, 5, 1 << 20, 4).segments(), 4u);
  data.segment = 0;
  EXPECT_EQ(block_grid(true, data, 5, 80, 64).segments(), 10u);
  EXPECT_EQ(block_grid(true, data, 5, 1 << 20, 64).segments(), 1u);
  data.segment = ~std::uint64_t{0};
  EXPECT_EQ(block_grid(true, data, 5, 80, 64).segments(), 1u);
}

}  // namespace
}  // namespace lsched::testing
