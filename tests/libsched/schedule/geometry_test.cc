#include "libsched/schedule/geometry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
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

TEST(cut, runs_cover_everything_once_and_are_even) {
  for (const std::uint64_t grain : {1u, 2u, 3u, 16u})
    for (std::uint64_t count = 0; count <= 50; ++count)
      for (std::uint64_t parts = 1; parts <= 20; ++parts) {
        const cut runs(count, parts, grain);
        ASSERT_EQ(runs.begin(0), 0u);
        ASSERT_EQ(runs.begin(parts), count);
        for (std::uint64_t i = 0; i < parts; ++i) {
          ASSERT_TRUE(runs.begin(i) % grain == 0 || runs.begin(i) == count);
          ASSERT_EQ(runs.begin(i) + runs.size(i), runs.begin(i + 1));
          ASSERT_LE(runs.size(i), runs.size(0));
          ASSERT_LT(runs.size(0), runs.size(i) + 2 * grain);
          ASSERT_LE(runs.size(i), runs.size(i == 0 ? 0 : i - 1));
        }
        ASSERT_TRUE(grain != 1 || runs.size(0) <= runs.size(parts - 1) + 1);
      }
}

TEST(cut, the_largest_counts_do_not_overflow) {
  constexpr std::uint64_t k_most = (std::uint64_t{1} << 48) - 1;
  const cut runs(k_most, k_largest, 64);
  EXPECT_EQ(runs.begin(k_largest), k_most);
  EXPECT_LE(runs.begin(k_largest - 1), k_most);
}

TEST(digits, number_the_largest_core_there_is_with_one_digit_in_a_smaller_base) {
  for (rank radix = 2; radix <= 9; ++radix)
    for (rank size = 1; size <= 300; ++size) {
      const digits of(size, radix);
      rank product = 1;
      for (int j = 0; j < of.steps(); ++j) {
        ASSERT_EQ(of.stride(j), product);
        ASSERT_TRUE(of.base(j) == radix || (j + 1 == of.steps() && 1 < of.base(j) && of.base(j) < radix));
        product *= of.base(j);
      }
      ASSERT_EQ(product, of.core());
      ASSERT_TRUE(of.core() <= size && size < 2 * of.core());
      ASSERT_TRUE(radix != 2 || of.core() == fold(size).core());
    }
}

TEST(digits, changing_one_leaves_the_others) {
  const digits of(50, 4);  // three digits with the bases 3, 4, 4; the core has 48 ranks
  for (rank number = 0; number < of.core(); ++number)
    for (int j = 0; j < of.steps(); ++j)
      for (rank value = 0; value < of.base(j); ++value) {
        const rank other = of.with(number, j, value);
        for (int k = 0; k < of.steps(); ++k) ASSERT_EQ(of.digit(other, k), k == j ? value : of.digit(number, k));
      }
}

TEST(digits, are_exact_in_the_largest_worlds) {
  EXPECT_EQ(digits(k_largest, 2).core(), 1 << 30);
  EXPECT_EQ(digits(k_largest, 1 << 16).core(), 32767 << 16);
  EXPECT_EQ(digits(k_largest, k_largest).core(), k_largest);
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

TEST(knomial, the_example_of_the_header) {
  const knomial tree(10, 4);
  EXPECT_EQ(tree.children_of(0), (std::vector<rank>{1, 2, 3, 4, 8}));
  EXPECT_EQ(tree.children_of(4), (std::vector<rank>{5, 6, 7}));
  EXPECT_EQ(tree.children_of(8), (std::vector<rank>{9}));
  EXPECT_EQ(tree.parent_of(9), 8);
}

/// Appends rank `r` and all its descendants, in the order of the children.
void collect(const knomial& tree, rank r, std::vector<rank>& below) {
  below.push_back(r);
  for (const rank child : tree.children_of(r)) collect(tree, child, below);
}

TEST(knomial, everybody_is_below_the_root_once_and_in_rank_order) {
  for (const rank radix : {2, 3, 4, 8})
    for (rank size = 1; size <= 300; ++size) {
      std::vector<rank> below;
      collect(knomial(size, radix), 0, below);
      std::vector<rank> everybody(static_cast<std::size_t>(size));
      std::iota(everybody.begin(), everybody.end(), 0);
      ASSERT_EQ(below, everybody) << "P=" << size << " k=" << radix;
    }
}

TEST(knomial, parents_children_and_depths_fit_together) {
  for (const rank radix : {2, 4})
    for (rank size = 1; size <= 300; ++size) {
      const knomial tree(size, radix);
      int deepest = 0;
      ASSERT_EQ(tree.depth_of(0), 0);
      for (rank r = 0; r < size; ++r) {
        deepest = std::max(deepest, tree.depth_of(r));
        for (const rank child : tree.children_of(r)) {
          ASSERT_EQ(tree.parent_of(child), r);
          ASSERT_EQ(tree.depth_of(child), tree.depth_of(r) + 1);
        }
      }
      ASSERT_EQ(tree.depth(), deepest) << "P=" << size << " k=" << radix;
    }
}

TEST(knomial, serves_the_largest_world) {
  const knomial tree(k_largest, 4);
  EXPECT_EQ(tree.parent_of(1 << 30), 0);
  EXPECT_EQ(tree.children_of(0).back(), 1 << 30);
  EXPECT_EQ(tree.depth(), 16);
  EXPECT_LE(tree.depth_of(k_largest - 1), tree.depth());
}

TEST(knomial, subtrees_are_intervals) {
  for (const rank radix : {2, 3, 4, 7})
    for (rank size = 1; size <= 70; ++size) {
      const knomial tree(size, radix);
      for (rank r = 0; r < size; ++r) {
        rank end = r + 1;
        for (const rank child : tree.children_of(r)) {
          ASSERT_EQ(child, end) << size << " " << r;
          end = tree.end_of(child);
        }
        ASSERT_EQ(tree.end_of(r), end) << size << " " << r;
      }
      ASSERT_EQ(tree.end_of(0), size);
    }
  EXPECT_EQ(knomial(k_largest, 2).end_of(1 << 30), k_largest);
}

TEST(spread_tree, is_a_tree_of_intervals_around_any_root) {
  for (const rank radix : {2, 3, 4, 50})
    for (rank size = 1; size <= 40; ++size)
      for (rank root = 0; root < size; ++root) {
        const spread_tree tree(size, root, radix);
        ASSERT_EQ(tree.first_of(root), 0);
        ASSERT_EQ(tree.end_of(root), size);
        ASSERT_LE(tree.depth(), knomial(size, radix).depth());
        int depth = 0;
        for (rank r = 0; r < size; ++r) {
          rank first = r;
          rank end = r + 1;
          for (const rank child : tree.children_of(r)) {  // on each side, a subtree begins where the previous subtree
                                                          // ends
            ASSERT_EQ(tree.parent_of(child), r);
            ASSERT_EQ(tree.depth_of(child), tree.depth_of(r) + 1);
            if (child < r) {
              ASSERT_EQ(tree.end_of(child), first);
              first = tree.first_of(child);
            } else {
              ASSERT_EQ(tree.first_of(child), end);
              end = tree.end_of(child);
            }
          }
          ASSERT_EQ(tree.first_of(r), first) << size << " " << root << " " << r;
          ASSERT_EQ(tree.end_of(r), end) << size << " " << root << " " << r;
          depth = std::max(depth, tree.depth_of(r));
        }
        ASSERT_EQ(tree.depth(), depth);
      }
}

}  // namespace
}  // namespace lsched
