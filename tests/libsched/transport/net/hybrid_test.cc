// Tests of the transport that joins shared memory and the network.
#include "libsched/transport/hybrid/hybrid_endpoint.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <vector>

#include "libsched/transport/net/net_endpoint.h"
#include "libsched/transport/shm/shm_endpoint.h"
#include "tests/libsched/transport/net/net_sockets.h"
#include "tests/support/wait_until.h"

namespace lsched {
namespace {

// A cancellation that arrives from the network must be passed on to shared memory, even if the instance is detached at
// once.
TEST(hybrid, cancels_an_instance_that_is_then_detached) {
  constexpr std::uint32_t k_instance = 7;
  const auto segment = shm_segment::create(2, 16 << 20);
  ASSERT_TRUE(segment) << segment.error().text;
  auto near = shm_endpoint::open(*segment, 0, {.watches_processes = false});
  ASSERT_TRUE(near) << near.error().text;
  auto sockets = testing::connect_all(3, AF_INET);
  auto far = net_endpoint::open({0, 3}, std::move(sockets[0]), {.bell = &(*near)->bell()});
  ASSERT_TRUE(far) << far.error().text;
  hybrid_endpoint both(std::move(*near), std::move(*far), {0, 1}, "shm+net", [](rank) {});
  const std::array<rank, 3> members{0, 1, 2};
  const std::vector<edge_spec> edges{{.outgoing = true, .signal = true, .peer = 2}};
  ASSERT_TRUE(both.attach(k_instance, members, true, edges));
  both.cancel(k_instance, {0, status::cancelled});
  both.detach(k_instance);
  std::array<completion, 4> news;
  EXPECT_EQ(both.poll(news), 0u);
}

// A rank of this node lives, but another host has lost the connection to this rank. All other ranks must record the
// loss.
TEST(hybrid, records_the_loss_of_a_living_rank_of_its_node_that_another_host_reports) {
  const auto segment = shm_segment::create(2, 16 << 20);
  ASSERT_TRUE(segment) << segment.error().text;
  std::vector<std::unique_ptr<shm_endpoint>> near;
  for (const rank place : {0, 1})
    near.push_back(std::move(*shm_endpoint::open(*segment, place, {.watches_processes = false})));
  auto sockets = testing::connect_all(3, AF_INET);
  auto far = net_endpoint::open({0, 3}, std::move(sockets[0]), {.bell = &near[0]->bell()});
  ASSERT_TRUE(far) << far.error().text;
  hybrid_endpoint both(std::move(near[0]), std::move(*far), {0, 1}, "shm+net", [](rank) {});
  EXPECT_EQ(both.find_dead_peer(), k_no_rank);
  const frame report{.kind = frame_kind::lost, .value = 1};
  ASSERT_EQ(send(sockets[2][0].control.get(), &report, sizeof report, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof report));
  EXPECT_TRUE(testing::wait_until([&] { return both.find_dead_peer() == 1; }));
  EXPECT_TRUE(both.is_lost(1));
  EXPECT_EQ(both.lost_after(1), k_no_rank);
}

}  // namespace
}  // namespace lsched
