// Tests of the search for the k-th largest magnitude of many lists, against a sort of all items.
#include "collectives/sparse/steps/threshold.h"

#include <gtest/gtest.h>

#include "tests/ops/lists.h"

namespace lsched {
namespace {

using numbers = std::vector<std::uint64_t>;

TEST(threshold_passes, see_every_bit_of_a_magnitude_once) {
  for (const dtype type : k_floats) {
    std::uint64_t bits = 0;
    for (unsigned pass = 0; pass < threshold_passes(type); ++pass) {
      EXPECT_TRUE(std::has_single_bit(threshold_bins(type, pass)));
      bits += static_cast<std::uint64_t>(std::bit_width(threshold_bins(type, pass)) - 1);
    }
    EXPECT_EQ(bits, 8 * size_of(type) - 1);
  }
  EXPECT_EQ(threshold_passes(dtype::f16), 2u);
  EXPECT_EQ(threshold_passes(dtype::f32), 4u);
  EXPECT_EQ(threshold_passes(dtype::f64), 8u);
  EXPECT_EQ(threshold_bins(dtype::f32, 0), 256u);
}

struct found {
  std::uint64_t magnitude;
  std::uint64_t above = 0, equal = 0;
};

found threshold_of(dtype type, std::uint64_t k, const std::vector<list>& lists) {
  std::vector<global_threshold> ranks(lists.size(), global_threshold(type, k));
  numbers before;
  for (unsigned pass = 0; pass < threshold_passes(type); ++pass) {
    numbers sums(threshold_bins(type, pass)), own(threshold_bins(type, pass), 77);
    for (std::size_t r = 0; r < lists.size(); ++r) {
      const list_in_memory memory(type, lists[r]);
      ranks[r].count(pass, {memory.data(), lists[r].size()}, before, own);
      for (std::size_t i = 0; i < own.size(); ++i) sums[i] += own[i];
    }
    before = sums;
  }
  found all{};
  for (std::size_t r = 0; r < lists.size(); ++r) {
    const list_in_memory memory(type, lists[r]);
    const magnitude_tally mine = ranks[r].finish({memory.data(), lists[r].size()}, before);
    EXPECT_TRUE(r == 0 || ranks[r].magnitude() == all.magnitude);
    all.magnitude = ranks[r].magnitude();
    all.above += mine.above;
    all.equal += mine.equal;
  }
  return all;
}

TEST(global_threshold, is_the_kth_magnitude_of_all) {
  std::mt19937_64 draw(1);
  for (const dtype type : k_floats)
    for (const pattern& values : patterns(type, 200, 3))
      for (const std::size_t k : {0u, 1u, 2u, 17u, 66u, 67u, 133u, 199u, 200u, 201u, 1000u}) {
        std::vector<list> lists(3);
        numbers magnitudes;
        for (std::uint32_t i = 0; i < 200; ++i) {
          const std::uint64_t value = values.values[i];
          if (magnitude_of(type, value) == 0) continue;
          lists[draw() % 3].push_back({i, value});
          magnitudes.push_back(magnitude_of(type, value));
        }
        std::sort(magnitudes.rbegin(), magnitudes.rend());
        const found it = threshold_of(type, k, lists);
        SCOPED_TRACE(testing::Message() << values.name << ", k = " << k << " of " << magnitudes.size());
        if (k == 0) {
          EXPECT_EQ(it.above, 0u);
        } else if (magnitudes.size() <= k) {
          EXPECT_EQ(it.above + it.equal, magnitudes.size());
          EXPECT_LE(it.magnitude, magnitudes.empty() ? 0 : magnitudes.back());
        } else {
          EXPECT_EQ(it.magnitude, magnitudes[k - 1]);
          EXPECT_EQ(it.above, static_cast<std::uint64_t>(
                                  std::count_if(magnitudes.begin(), magnitudes.end(),
                                                [&](std::uint64_t other) { return other > it.magnitude; })));
          EXPECT_EQ(it.equal,
                    static_cast<std::uint64_t>(std::count(magnitudes.begin(), magnitudes.end(), it.magnitude)));
        }
      }
}

}  // namespace
}  // namespace lsched
