// Tests of the grouping of ranks by nodes.
#include "collectives/algorithm/nodes.h"
#include "collectives/requests/sample_requests.h"

#include <gtest/gtest.h>

namespace lsched::testing {
namespace {

TEST(nodes, are_in_the_order_of_their_first_ranks) {
  const auto nodes = nodes_of({.nodes = {3, 1, 1, 3, 1, 2, 2, 3, 1}}, 9);
  EXPECT_EQ(nodes, (std::vector<node>{{0, 3, 7}, {1, 2, 4, 8}, {5, 6}}));
  EXPECT_EQ(ranks_of_smallest(nodes), 2u);
  EXPECT_EQ(place_of(nodes, 4).number, 1u);
  EXPECT_EQ(place_of(nodes, 4).place, 2u);
  EXPECT_EQ(nodes_of({}, 3), (std::vector<node>{{0, 1, 2}}));
}

}  // namespace
}  // namespace lsched::testing
