// Tests of connections that end: the peer's process may have ended, or may live without the connection.
#include <gtest/gtest.h>

#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "libsched/transport/net/net_endpoint.h"
#include "tests/libsched/transport/net/net_sockets.h"

namespace lsched {
namespace {

using namespace std::chrono_literals;

constexpr auto k_most_waiting = 60s;
constexpr auto k_lost_after = 100ms;

/// A rank without an engine. A rank that does not live has only sockets.
struct member {
  std::vector<net_sockets> sockets;
  std::vector<descriptor> listening;
  int listener = -1;  ///< a listening socket of the endpoint
  std::unique_ptr<net_endpoint> end;
  std::unique_ptr<board> home, fresh;
  std::vector<std::array<descriptor, 2>> connections;  ///< a second descriptor of each connection, by peer
  status how = status::pending;                        ///< result of the roll call
};

/// The ranks of a world in one process. Each rank listens, as in a job.
class listening_world {
 public:
  listening_world(rank ranks, std::set<rank> living)
      : living_(std::move(living)), members_(static_cast<std::size_t>(ranks)) {
    testing::job_in_threads job(ranks);
    auto made = job.run({}, [](rank) { return true; });
    for (std::size_t r = 0; r < members_.size(); ++r) {
      members_[r].sockets = std::move(**made[r]);
      members_[r].listening = job.listeners[r].take_sockets();
    }
    for (const rank r : living_) begin(r, ranks);
  }

  member& operator[](rank r) { return members_[static_cast<std::size_t>(r)]; }

  /// Resets both connections of two living ranks. A firewall that has forgotten the connections does the same.
  void reset(rank one, rank other) {
    for (const descriptor& end : (*this)[one].connections[static_cast<std::size_t>(other)]) {
      const sockaddr none{.sa_family = AF_UNSPEC, .sa_data = {}};
      EXPECT_EQ(connect(end.get(), &none, sizeof none), 0);
    }
  }

  void poll() {
    std::array<completion, 4> news;
    for (const rank r : living_) (void)(*this)[r].end->poll(news);
  }

  /// Waits until each living rank has recorded a loss.
  bool await_losses() {
    return poll_until([](member& of) { return of.end->find_dead_peer() != k_no_rank; });
  }

  /// Starts a roll call of the living ranks, and waits until each has a result.
  bool regroup() {
    for (const rank r : living_) {
      member& of = (*this)[r];
      of.fresh = std::move(*of.end->open_board(of.home->homes().size()));
      if (of.fresh->regroup(*of.home) != status::ok) return false;
    }
    return poll_until([](member& of) {
      rank missing = k_no_rank;
      (void)of.end->find_dead_peer();
      if (of.how == status::pending) of.how = of.fresh->meet(&missing);
      return of.how != status::pending;
    });
  }

  /// Returns the ranks that have continued after the roll call.
  std::set<rank> continued() const {
    std::set<rank> all;
    for (std::size_t r = 0; r < members_.size(); ++r)
      if (members_[r].how == status::ok) all.insert(static_cast<rank>(r));
    return all;
  }

 private:
  void begin(rank self, rank ranks) {
    member& of = (*this)[self];
    for (const net_sockets& each : of.sockets) {
      auto& ends = of.connections.emplace_back();
      if (each.control) ends = {descriptor(dup(each.control.get())), descriptor(dup(each.bulk.get()))};
    }
    of.listener = of.listening.front().get();
    of.end = std::move(*net_endpoint::open({self, ranks}, std::move(of.sockets), {.lost_after = k_lost_after},
                                           std::move(of.listening)));
    of.home = of.end->open_home_board();
  }

  template <class Condition>
  bool poll_until(Condition holds) {
    const auto limit = std::chrono::steady_clock::now() + k_most_waiting;
    while (std::chrono::steady_clock::now() < limit) {
      poll();
      const auto count = std::ranges::count_if(living_, [&](rank r) { return holds((*this)[r]); });
      if (count == static_cast<std::ptrdiff_t>(living_.size())) return true;
    }
    return false;
  }

  const std::set<rank> living_;
  std::vector<member> members_;
};

std::set<rank> set_of_ranks(rank count) {
  std::set<rank> all;
  for (rank r = 0; r < count; ++r) all.insert(r);
  return all;
}

// Both processes live, so each of them must regard the other as a rank that may live. Otherwise both would continue.
TEST(net_presence, no_two_worlds_continue_after_a_connection_between_living_ranks_was_reset) {
  for (const rank ranks : {2, 3, 5, 6, 7, 4}) {
    for (const auto& [one, other] : {std::pair<rank, rank>{0, 1}, {ranks - 1, ranks - 2}, {0, ranks - 1}}) {
      listening_world world(ranks, set_of_ranks(ranks));
      world.reset(one, other);
      ASSERT_TRUE(world.await_losses()) << ranks;
      EXPECT_TRUE(world[one].end->is_lost(other));
      EXPECT_TRUE(world[other].end->is_lost(one));
      ASSERT_TRUE(world.regroup()) << ranks;
      const std::set<rank> continued = world.continued();
      EXPECT_LE(continued.contains(one) + continued.contains(other), 1) << ranks;
      for (const rank r : continued) EXPECT_EQ(world[r].fresh->homes().size(), continued.size()) << ranks;
      if (ranks == 2) {
        EXPECT_EQ(continued, std::set<rank>{0});
      } else if (ranks >= 5) {
        EXPECT_GT(2 * continued.size(), static_cast<std::size_t>(ranks));
      }
    }
  }
}

// At most half of the ranks, without rank 0, continue only if the other processes have ended.
TEST(net_presence, ranks_go_on_if_the_other_processes_have_ended) {
  for (const auto& [ranks, living] : {std::pair<rank, std::set<rank>>{2, {1}}, {3, {2}}, {5, {1, 3}}, {7, {6}}}) {
    listening_world world(ranks, living);
    for (rank r = 0; r < ranks; ++r)
      if (!living.contains(r)) {
        world[r].listening.clear();
        world[r].sockets.clear();
      }
    ASSERT_TRUE(world.await_losses()) << ranks;
    ASSERT_TRUE(world.regroup()) << ranks;
    EXPECT_EQ(world.continued(), living) << ranks;
  }
}

// The kernel closes the descriptors of a process one after the other. While the listening sockets are still open, they
// accept connections.
TEST(net_presence, a_process_has_ended_although_its_listening_socket_was_closed_last) {
  for (const rank ranks : {2, 3, 5}) {
    listening_world world(ranks, {ranks - 1});
    for (rank r = 0; r < ranks - 1; ++r) world[r].sockets.clear();
    for (int polls = 0; polls < 100; ++polls) world.poll();
    EXPECT_EQ(world[ranks - 1].end->lost_after(0), k_no_rank);
    for (rank r = 0; r < ranks - 1; ++r) world[r].listening.clear();
    ASSERT_TRUE(world.await_losses()) << ranks;
    ASSERT_TRUE(world.regroup()) << ranks;
    EXPECT_EQ(world.continued(), std::set<rank>{ranks - 1}) << ranks;
  }
}

// A firewall may also reset the connection by which a rank finds out whether the peer's process exists.
TEST(net_presence, a_peer_that_listens_lives_although_further_connections_are_reset) {
  listening_world world(2, {0, 1});
  world.reset(0, 1);
  const auto limit = std::chrono::steady_clock::now() + k_most_waiting;
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  while (world[1].end->find_dead_peer() == k_no_rank && std::chrono::steady_clock::now() < limit) {
    world.poll();
    const descriptor accepted(accept4(world[0].listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (accepted) (void)setsockopt(accepted.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  ASSERT_TRUE(world.await_losses());
  ASSERT_TRUE(world.regroup());
  EXPECT_EQ(world.continued(), std::set<rank>{0});
}

/// Returns the time in milliseconds since this host has received a segment of a connection.
std::uint32_t silence_of(int socket) {
  tcp_info of{};
  socklen_t bytes = sizeof of;
  EXPECT_EQ(getsockopt(socket, IPPROTO_TCP, TCP_INFO, &of, &bytes), 0);
  return std::min(of.tcpi_last_ack_recv, of.tcpi_last_data_recv);
}

// A rank that does not poll learns of a reset long after its arrival.
TEST(net_presence, a_process_has_ended_although_its_reset_is_read_late) {
  for (const rank ranks : {2, 3}) {
    listening_world world(ranks, {ranks - 1});
    for (rank r = 0; r < ranks - 1; ++r) {
      for (net_sockets& each : world[r].sockets) {
        if (!each.control) continue;
        const linger at_once{.l_onoff = 1, .l_linger = 0};
        ASSERT_EQ(setsockopt(each.control.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
      }
      world[r].listening.clear();
      world[r].sockets.clear();
    }
    const auto limit = std::chrono::steady_clock::now() + k_most_waiting;
    const int last = world[ranks - 1].connections[0][0].get();
    while (silence_of(last) < 2 * k_lost_after.count() && std::chrono::steady_clock::now() < limit)
      std::this_thread::yield();
    ASSERT_TRUE(world.await_losses()) << ranks;
    ASSERT_TRUE(world.regroup()) << ranks;
    EXPECT_EQ(world.continued(), std::set<rank>{ranks - 1}) << ranks;
  }
}

// Without the address at which a peer listens, nothing proves that the process has ended.
TEST(net_presence, a_peer_with_an_unknown_address_may_live) {
  auto sockets = testing::connect_all(2, AF_INET);
  sockets[1][0].listens_at = {};
  sockets[0].clear();
  const auto end = std::move(*net_endpoint::open({1, 2}, std::move(sockets[1]), {.lost_after = k_lost_after}));
  const auto home = end->open_home_board();
  const auto fresh = std::move(*end->open_board(2));
  const auto limit = std::chrono::steady_clock::now() + k_most_waiting;
  while (end->find_dead_peer() == k_no_rank && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  ASSERT_EQ(fresh->regroup(*home), status::ok);
  rank missing = k_no_rank;
  EXPECT_EQ(fresh->meet(&missing), status::peer);
}

// A network may drop the segments of one connection, and pass those of the other.
TEST(net_presence, a_peer_is_lost_if_only_its_bulk_connection_is_silent) {
  listening_world world(2, {0, 1});
  sock_filter drop_all{.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0};
  const sock_fprog program{.len = 1, .filter = &drop_all};
  const auto& [control, bulk] = world[1].connections[0];
  ASSERT_EQ(setsockopt(bulk.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
  ASSERT_TRUE(world.await_losses());
  ASSERT_TRUE(world.regroup());
  EXPECT_EQ(world.continued(), std::set<rank>{0});
}

}  // namespace
}  // namespace lsched
