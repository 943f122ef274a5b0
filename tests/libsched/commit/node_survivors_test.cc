// Tests of survivors on one node. Other hosts have lost one of these survivors, although its process lives.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "libsched/commit/meeting.h"
#include "libsched/engine/engine.h"
#include "libsched/transport/hybrid/hybrid_endpoint.h"
#include "libsched/transport/net/net_endpoint.h"
#include "libsched/transport/shm/shm_endpoint.h"
#include "tests/libsched/transport/net/net_sockets.h"
#include "tests/support/wait_until.h"

namespace lsched {
namespace {

/// A rank of the node with the ranks 0 and 1. Rank 2 is on another host.
struct rank_of_node {
  rank_of_node(const std::shared_ptr<shm_segment>& segment, rank self, std::vector<net_sockets> sockets) {
    auto near = std::move(*shm_endpoint::open(segment, self, {.watches_processes = false}));
    auto far = std::move(*net_endpoint::open({self, 3}, std::move(sockets),
                                             {.bell = &near->bell(), .lost_after = std::chrono::milliseconds(100)}));
    net_endpoint* const network = far.get();
    net = std::make_unique<hybrid_endpoint>(std::move(near), std::move(far), std::vector<rank>{0, 1}, "shm+net",
                                            [network](rank lost) { network->record_lost(lost); });
    runs = std::make_unique<engine>(*net);
    all = std::make_shared<const membership>(net->place());
  }

  std::unique_ptr<hybrid_endpoint> net;
  std::unique_ptr<engine> runs;
  membership_ptr all;
  std::unique_ptr<board> of_node;
  std::unique_ptr<meeting> meets;
};

/// Runs the engines until both meetings have ended.
bool end_meetings(std::array<std::unique_ptr<rank_of_node>, 2>& ranks) {
  return testing::wait_until([&] {
    for (const auto& one : ranks) (void)one->runs->step();
    return ranks[0]->meets->progress().has_ended() && ranks[1]->meets->progress().has_ended();
  });
}

// If lsched_shrink succeeded, each commit of the new world would fail, and a program that then calls lsched_shrink
// again would never end.
TEST(node_survivors, get_peer_if_other_hosts_have_lost_one_that_lives) {
  const auto segment = shm_segment::create(2, 16 << 20);
  ASSERT_TRUE(segment) << segment.error().text;
  auto sockets = testing::connect_all(3, AF_INET);
  std::array<std::unique_ptr<rank_of_node>, 2> ranks;
  for (const rank r : {0, 1})
    ranks[static_cast<std::size_t>(r)] =
        std::make_unique<rank_of_node>(*segment, r, std::move(sockets[static_cast<std::size_t>(r)]));
  const std::array<rank, 2> listed{0, 1};
  for (const auto& one : ranks)
    one->meets = std::make_unique<meeting>(*one->runs, one->all, listed, 1, std::move(*one->net->open_board(2)));
  ASSERT_TRUE(end_meetings(ranks));

  const frame report{.kind = frame_kind::lost, .value = 1};
  ASSERT_EQ(send(sockets[2][0].control.get(), &report, sizeof report, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof report));
  ASSERT_TRUE(testing::wait_until([&] {
    for (const auto& one : ranks) (void)one->net->find_dead_peer();
    return ranks[0]->net->is_lost(1) && ranks[1]->net->is_lost(0);
  }));

  for (std::size_t i = 0; i < 2; ++i) {
    rank_of_node& one = *ranks[i];
    const membership_ptr parent = one.meets->made();
    ASSERT_NE(parent, nullptr) << one.meets->why().text;
    one.of_node = one.meets->take_board();
    one.meets = std::make_unique<meeting>(*one.runs, parent, *one.of_node, std::move(*one.net->open_board(2)));
  }
  ASSERT_TRUE(end_meetings(ranks));
  for (const auto& one : ranks) {
    EXPECT_EQ(one->meets->why().code, status::peer);
    EXPECT_EQ(one->meets->made(), nullptr);
    one->meets.reset();
    one->of_node.reset();
  }
}

}  // namespace
}  // namespace lsched
