// Tests of the validation of requests, without a world. Callers of the C interface get the same errors.
#include "collectives/requests/collective_request.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "collectives/requests/world_request.h"
#include "ops/rules.h"

namespace lsched::testing {
namespace {

constexpr world k_place{1, 3};

/// The request for an allreduce of four elements.
class Requests : public ::testing::Test {
 protected:
  /// Applies `change` to the request. Returns the error of the request, or an empty text.
  template <class Change>
  std::string error_of(const Change& change) const {
    collective_request request{.collective = "allreduce",
                               .count = 4,
                               .reduction = kernel::sum,
                               .input = memory_.data(),
                               .output = memory_.data() + 4};
    change(request);
    const auto made = validate(request, k_place);
    return made ? "" : made.error().text;
  }

  mutable std::array<float, 64> memory_{};
  const std::array<std::uint64_t, 3> counts_{1, 0, 2};
};

TEST_F(Requests, that_are_wrong_name_the_member) {
  EXPECT_EQ(error_of([](collective_request&) {}), "");
  EXPECT_EQ(error_of([](auto& r) { r.collective = {}; }), "collective is null");
  EXPECT_EQ(error_of([](auto& r) { r.root = 1; }), "allreduce has no root: leave root 0");
  EXPECT_EQ(error_of([&](auto& r) { r.counts = counts_.data(); }),
            "allreduce takes a single count: set count, and leave counts null");
  EXPECT_EQ(error_of([](auto& r) { r.depth = 9; }), "allreduce: depth is not from 0 to 8");
  EXPECT_EQ(error_of([](auto& r) { r.count = k_max_count + 1; }),
            "allreduce: count is 281474976710656, above the largest count, 2^48-1");
  EXPECT_EQ(error_of([](auto& r) { r.reduction = kernel::none; }), "allreduce: reduction is not an lsched_reduction");
  EXPECT_EQ(error_of([](auto& r) { r.type = dtype::f32, r.reduction = kernel::band; }),
            "allreduce: band is not defined for f32");
  EXPECT_EQ(
      error_of([&](auto& r) { r.output = memory_.data() + 1; }),
      "allreduce: input and output overlap, but are not in place: pass separate memory or the in-place addresses");
  EXPECT_EQ(error_of([](auto& r) { r.collective = "telepathy"; }).find("there is no collective \"telepathy\""), 0u);
  EXPECT_EQ(error_of([](auto& r) { r.collective = "partial_allreduce"; }),
            "partial_allreduce has a create function of its own: call lsched_partial_create");
}

TEST_F(Requests, with_an_invalid_value_fail_only_if_they_use_the_value) {
  const failure bad = argument("this value is bad");
  EXPECT_EQ(error_of([&](auto& r) { r.type = bad; }), "allreduce: this value is bad");
  EXPECT_EQ(error_of([&](auto& r) { r.user_op = bad, r.reduction = kernel::none; }), "allreduce: this value is bad");
  EXPECT_EQ(error_of([&](auto& r) { r.collective = "barrier", r.count = 0, r.type = bad; }), "");
  EXPECT_EQ(error_of([&](auto& r) { r.collective = "bcast", r.reduction = bad; }),
            "bcast has no reduction: leave reduction 0");
}

TEST_F(Requests, with_a_capacity_have_blocks_of_any_length) {
  for (const auto& [listed, blocks] : {std::pair{&k_gatherv, &k_gather},
                                       {&k_scatterv, &k_scatter},
                                       {&k_allgatherv, &k_allgather},
                                       {&k_alltoallv, &k_alltoall}}) {
    const auto made = validate(collective_request{.collective = listed->name, .capacity = k_any_count}, k_place);
    ASSERT_TRUE(made) << made.error().text;
    EXPECT_EQ(made->kind, blocks);
    EXPECT_EQ(made->data.room, k_any_room);
  }
  EXPECT_EQ(error_of([](auto& r) { r.capacity = 1; }),
            "allreduce does not support a capacity: use gatherv, scatterv, allgatherv or alltoallv");
}

// --- requests for a world --------------------------------------------------------------------------------------

TEST(world_requests, validate_the_ranks_the_root_and_the_activation) {
  const auto error_of = [](const collective_request& request, rank ranks) {
    const auto made = choose_for_world(request, ranks, k_most_proved, false);
    return made ? "" : made.error().text;
  };
  EXPECT_EQ(error_of({.collective = "bcast", .root = 2}, 3), "");
  EXPECT_EQ(error_of({.collective = "bcast", .root = 3}, 3),
            "root is 3: use a rank of the world, or 0 for a collective without a root");
  EXPECT_EQ(error_of({.collective = "barrier"}, 0), "ranks is 0, not from 1 to 2^20");
  EXPECT_EQ(error_of({.collective = "partial_allreduce", .reduction = kernel::sum}, 3), "activation is null");
}

TEST(world_requests, take_the_members_that_the_collective_uses) {
  collective_request request{.count = 8, .reduction = kernel::sum, .is_mean = true, .root = 1};
  request.nodes = nodes_of_neighbors(5, 2);
  EXPECT_EQ(request.nodes, (std::vector<rank>{0, 0, 1, 1, 2}));
  const shape sum = shape_of(k_allreduce, 5, request), moved = shape_of(k_bcast, 5, request);
  EXPECT_TRUE(sum.is_mean);
  EXPECT_EQ(sum.root, 0);
  EXPECT_EQ(sum.nodes, request.nodes);
  EXPECT_FALSE(moved.is_mean);
  EXPECT_EQ(moved.root, 1);
  EXPECT_EQ(moved.what, kernel::none);
  EXPECT_TRUE(shape_of(k_barrier, 5, request).nodes.empty());
}

}  // namespace
}  // namespace lsched::testing
