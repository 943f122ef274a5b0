// Tests of the ranks that survive a loss over the transport net. The tests cover the roll call of a board, and a
// network partition.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <set>
#include <vector>

#include "libsched/transport/net/net_endpoint.h"
#include "tests/libsched/transport/net/net_sockets.h"

namespace lsched {
namespace {

/// A world in which the test has endpoints for some ranks (`ends`) and only the sockets of the other ranks (`others`).
struct cut_world {
  cut_world(rank ranks, const std::set<rank>& living) : sockets(testing::connect_all(ranks, AF_INET)) {
    for (rank r = 0; r < ranks; ++r) {
      if (!living.contains(r)) {
        others.push_back(r);
        continue;
      }
      ends.push_back(std::move(*net_endpoint::open({r, ranks}, std::move(sockets[static_cast<std::size_t>(r)]))));
      boards.push_back(ends.back()->open_home_board());
    }
  }

  /// Sends a frame from one of the other ranks to all endpoints.
  void send(rank from, const frame& what) {
    for (const auto& end : ends) {
      const auto& to = sockets[static_cast<std::size_t>(from)][static_cast<std::size_t>(end->place().self)].control;
      EXPECT_EQ(::send(to.get(), &what, sizeof what, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof what));
    }
  }

  /// Starts a roll call (the search for the surviving ranks) on all endpoints. Expects equal home boards. Returns the
  /// status of each endpoint.
  std::vector<status> regroup() {
    std::vector<std::unique_ptr<board>> fresh;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      fresh.push_back(std::move(*ends[i]->open_board(boards[i]->homes().size())));
      EXPECT_EQ(fresh[i]->regroup(*boards[i]), status::ok);
    }
    std::vector<status> how(ends.size(), status::pending);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::ranges::count(how, status::pending) != 0 && std::chrono::steady_clock::now() < limit)
      for (std::size_t i = 0; i < ends.size(); ++i) {
        std::array<completion, 4> news;
        (void)ends[i]->poll(news);
        rank missing = k_no_rank;
        if (how[i] == status::pending) how[i] = fresh[i]->meet(&missing);
        if (how[i] == status::ok) {
          EXPECT_EQ(fresh[i]->homes().size(), ends.size());
        }
      }
    return how;
  }

  std::vector<std::vector<net_sockets>> sockets;
  std::vector<std::unique_ptr<net_endpoint>> ends;
  std::vector<std::unique_ptr<board>> boards;
  std::vector<rank> others;
};

TEST(net_survivors, go_on_without_processes_that_have_ended) {
  for (const auto& [ranks, living] : {std::pair<rank, std::set<rank>>{3, {1, 2}}, {3, {0, 2}}, {5, {3}}, {7, {1, 4}}}) {
    cut_world world(ranks, living);
    for (const rank other : world.others) world.sockets[static_cast<std::size_t>(other)].clear();
    EXPECT_EQ(world.regroup(), std::vector(living.size(), status::ok)) << ranks;
  }
}

struct side {
  rank ranks;
  std::set<rank> living;
  status how;
};
const std::vector<side> k_sides{{3, {1, 2}, status::ok},         {3, {0}, status::peer},  {5, {0, 1}, status::peer},
                                {5, {2, 3, 4}, status::ok},      {4, {0, 3}, status::ok}, {4, {1, 2}, status::peer},
                                {6, {0, 1, 2, 3, 4}, status::ok}};

// The other ranks may still live on the other side of a network partition. Only the larger side may continue. If both
// sides have the same size, only the side with the lowest rank may continue.
TEST(net_survivors, go_on_only_on_one_side_of_a_cut) {
  for (const side& it : k_sides) {
    cut_world world(it.ranks, it.living);
    for (const rank other : world.others)
      world.send(other, {.kind = frame_kind::lost, .index = 1, .value = static_cast<std::uint64_t>(other)});
    EXPECT_EQ(world.regroup(), std::vector(it.living.size(), it.how)) << it.ranks;
    for (const rank other : world.others) {
      // When the network partition heals, the other side must learn that this side counts the other side as lost. The
      // connection must stay open.
      frame news;
      const auto& from =
          world.sockets[static_cast<std::size_t>(other)][static_cast<std::size_t>(world.ends.front()->place().self)]
              .control;
      do ASSERT_EQ(recv(from.get(), &news, sizeof news, MSG_DONTWAIT | MSG_WAITALL), static_cast<ssize_t>(sizeof news));
      while (news.kind != frame_kind::lost || news.value != static_cast<std::uint64_t>(other));
      EXPECT_EQ(news.index, 1u);
      EXPECT_EQ(recv(from.get(), &news, 1, MSG_DONTWAIT), -1);
    }
  }
}

// The other side has declared this side lost, and then closed its connections. Its processes may still live, so this
// side must treat these processes as alive.
TEST(net_survivors, take_a_side_that_has_declared_them_lost_for_alive) {
  for (const side& it : k_sides) {
    cut_world world(it.ranks, it.living);
    for (const rank other : world.others) {
      for (const auto& end : world.ends) {
        const rank self = end->place().self;
        const frame what{.kind = frame_kind::lost, .index = 1, .value = static_cast<std::uint64_t>(self)};
        const auto& to = world.sockets[static_cast<std::size_t>(other)][static_cast<std::size_t>(self)].control;
        ASSERT_EQ(::send(to.get(), &what, sizeof what, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof what));
      }
      world.sockets[static_cast<std::size_t>(other)].clear();
    }
    EXPECT_EQ(world.regroup(), std::vector(it.living.size(), it.how)) << it.ranks;
  }
}

}  // namespace
}  // namespace lsched
