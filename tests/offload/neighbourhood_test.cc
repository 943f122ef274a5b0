#include "offload/neighbourhood.h"

#include <gtest/gtest.h>

namespace lsched {
namespace {

TEST(neighbourhood, ranks_of_a_segment_share_its_cores) {
  for (const rank ranks : {1, 3, 5, 6, 7}) {
    const auto segment = shm_segment::create(ranks, 64 << 20, 2);
    ASSERT_TRUE(segment);
    const neighbourhood all = neighbourhood_of(**segment, 0);
    EXPECT_EQ(all.ranks, static_cast<unsigned>(ranks));
    EXPECT_EQ(all.cores, 2u);
    EXPECT_EQ(all.ranks_per_core, (ranks + 1) / 2);
    EXPECT_TRUE(all.nodes.empty());
  }
}

TEST(neighbourhood, neighbours_play_nodes) {
  const auto segment = shm_segment::create(7, 64 << 20, 2);
  ASSERT_TRUE(segment);
  EXPECT_EQ(neighbourhood_of(**segment, 3).nodes, (std::vector<rank>{0, 0, 0, 1, 1, 1, 2}));
  EXPECT_TRUE(neighbourhood_of(**segment, 7).nodes.empty()) << "a single node needs no emulation";
}

}  // namespace
}  // namespace lsched
