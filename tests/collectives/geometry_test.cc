#include "collectives/geometry.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace lsched {
namespace {

constexpr rank k_largest = std::numeric_limits<rank>::max();

TEST(geometry, logarithms_bracket_every_size) {
  for (rank size = 1; size <= 5000; ++size) {
    const std::int64_t floor = std::int64_t{1} << floor_log2(size);
    const std::int64_t ceil = std::int64_t{1} << ceil_log2(size);
    ASSERT_TRUE(floor <= size && size < 2 * floor) << size;
    ASSERT_TRUE(ceil >= size && (size == 1 ? ceil == 1 : ceil / 2 < size)) << size;
  }
}

TEST(geometry, logarithms_are_exact_at_both_ends) {
  EXPECT_EQ(floor_log2(1), 0);
  EXPECT_EQ(ceil_log2(1), 0);
  EXPECT_EQ(floor_log2(1 << 30), 30);
  EXPECT_EQ(ceil_log2(1 << 30), 30);
  EXPECT_EQ(ceil_log2((1 << 30) + 1), 31);
  EXPECT_EQ(floor_log2(k_largest), 30);
  EXPECT_EQ(ceil_log2(k_largest), 31);
}

TEST(geometry, ring_steps_are_each_others_inverse) {
  for (rank size = 1; size <= 40; ++size)
    for (rank self = 0; self < size; ++self)
      for (rank distance = 0; distance < size; ++distance) {
        const rank to = ring_after(self, distance, size);
        ASSERT_TRUE(to >= 0 && to < size);
        ASSERT_EQ((to - self + size) % size, distance);
        ASSERT_EQ(ring_before(to, distance, size), self);
      }
}

TEST(geometry, ring_steps_do_not_overflow) {
  EXPECT_EQ(ring_after(k_largest - 1, 1 << 30, k_largest), (1 << 30) - 1);
  EXPECT_EQ(ring_before(0, 1 << 30, k_largest), k_largest - (1 << 30));
}

TEST(fold, every_rank_has_exactly_one_role) {
  for (rank size = 1; size <= 300; ++size) {
    const fold folded(size);
    ASSERT_EQ(folded.core(), rank{1} << folded.levels());
    ASSERT_EQ(folded.core() + folded.rem(), size);
    ASSERT_LT(folded.rem(), folded.core());
    rank proxies = 0;
    rank extras = 0;
    for (rank r = 0; r < size; ++r) {
      ASSERT_FALSE(folded.is_proxy(r) && folded.is_extra(r));
      proxies += folded.is_proxy(r);
      extras += folded.is_extra(r);
      if (folded.is_proxy(r)) {
        ASSERT_TRUE(folded.is_extra(folded.extra_of(r)));
        ASSERT_EQ(folded.proxy_of(folded.extra_of(r)), r);
      }
    }
    ASSERT_EQ(proxies, folded.rem());
    ASSERT_EQ(extras, folded.rem());
  }
}

TEST(fold, virtual_indices_count_the_core_in_rank_order) {
  for (rank size = 1; size <= 300; ++size) {
    const fold folded(size);
    rank next = 0;
    for (rank r = 0; r < size; ++r) {
      if (folded.is_extra(r)) continue;
      ASSERT_EQ(folded.virtual_of(r), next) << r << " of " << size;
      ASSERT_EQ(folded.real_of(next), r) << r << " of " << size;
      ++next;
    }
    ASSERT_EQ(next, folded.core());
  }
}

TEST(fold, crossing_a_dimension_changes_one_bit_and_leads_back) {
  for (rank size = 1; size <= 130; ++size) {
    const fold folded(size);
    for (rank r = 0; r < size; ++r) {
      if (folded.is_extra(r)) continue;
      for (int k = 0; k < folded.levels(); ++k) {
        const rank other = folded.across(r, k);
        ASSERT_FALSE(folded.is_extra(other));
        ASSERT_EQ(folded.virtual_of(other) ^ folded.virtual_of(r), rank{1} << k);
        ASSERT_EQ(folded.across(other, k), r);
      }
    }
  }
}

TEST(fold, serves_the_largest_world) {
  const fold folded(k_largest);
  EXPECT_EQ(folded.rem(), folded.core() - 1);
  EXPECT_TRUE(folded.is_extra(k_largest - 2));
  EXPECT_FALSE(folded.is_proxy(k_largest - 1));
  EXPECT_EQ(folded.virtual_of(k_largest - 1), folded.core() - 1);
  EXPECT_EQ(folded.real_of(folded.core() - 1), k_largest - 1);
}

}  // namespace
}  // namespace lsched
