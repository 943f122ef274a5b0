// Tests of threads that wait for the sockets themselves (libsched/transport/direct_sleep.h).
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "libsched/schedule/draw.h"
#include "libsched/transport/net/net_endpoint.h"
#include "tests/libsched/transport/net/net_sockets.h"
#include "tests/support/sampling.h"

namespace lsched {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr auto k_long = 60s;   // a sleep that must end early
constexpr auto k_early = 30s;  // limit for the end of such a sleep

/// A rank whose thread sleeps as driver::park() prescribes. Its peer sends signals.
struct sleeper {
  std::unique_ptr<net_endpoint> end{};
  link_id out = 0, in = 0;
  std::atomic<round_no> stamp{0};  ///< a message of another thread of the process, which rings

  doorbell& bell() { return end->bell(); }
  direct_sleep& direct() { return *end->direct(); }
  std::uint32_t epoch() { return bell().word[doorbell::waiter].load(); }

  /// Announces a sleep, claims the sockets and polls once more.
  void announce() {
    bell().sleepers.fetch_add(1);
    EXPECT_TRUE(direct().claim());
    bell().polling.store(0);
    poll();
  }
  void withdraw() {
    bell().sleepers.fetch_sub(1);
    direct().end();
  }
  std::size_t poll() {
    std::array<completion, 4> news;
    return end->poll(news);
  }
  void signal(round_no round) {
    end->signal(out, round);
    end->flush();
  }
  steady_clock::duration sleep(std::uint32_t epoch, std::chrono::nanoseconds timeout) {
    const auto before = steady_clock::now();
    direct().sleep(epoch, timeout);
    return steady_clock::now() - before;
  }
};

struct two_sleepers {
  explicit two_sleepers(bool is_encrypted = false) {
    auto sockets = testing::connect_all(2, AF_INET, is_encrypted);
    for (rank r = 0; r < 2; ++r) {
      sleeper& mine = both[static_cast<std::size_t>(r)];
      mine.end = std::move(*net_endpoint::open({r, 2}, std::move(sockets[static_cast<std::size_t>(r)])));
      const auto links = *mine.end->attach(
          5, std::vector<rank>{0, 1}, false,
          std::vector<edge_spec>{{.outgoing = true, .signal = true, .peer = 1 - r}, {.signal = true, .peer = 1 - r}});
      mine.out = links[0];
      mine.in = links[1];
    }
    for (sleeper& each : both) EXPECT_EQ(each.end->link(5, std::vector<member_address>(2, {.far = 5})), status::ok);
  }
  std::array<sleeper, 2> both;
};

/// The parameter is true if the connections are encrypted.
class net_sleep : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !testing::has_tls()) GTEST_SKIP() << "the system has no OpenSSL 3";
  }
};
INSTANTIATE_TEST_SUITE_P(both, net_sleep, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "encrypted" : "clear"; });

TEST_P(net_sleep, ends_when_bytes_arrive) {
  two_sleepers ranks(GetParam());
  auto& [me, peer] = ranks.both;
  for (round_no round = 1; round <= 100; ++round) {
    const std::uint32_t epoch = me.epoch();
    ASSERT_FALSE(me.end->arm(me.in, round));
    me.announce();
    std::thread other([&] { peer.signal(round); });
    bool is_there = false;
    while (!is_there && me.sleep(epoch, k_long) < k_early) is_there = me.poll() == 1;
    other.join();
    me.withdraw();
    ASSERT_TRUE(is_there);
    EXPECT_EQ(me.epoch(), epoch) << "the watcher rang although a thread has claimed the sockets";
  }
}

TEST_P(net_sleep, ends_when_a_peer_is_lost) {
  auto sockets = testing::connect_all(2, AF_INET, GetParam());
  sleeper me;
  me.end = std::move(*net_endpoint::open({0, 2}, std::move(sockets[0])));
  const std::uint32_t epoch = me.epoch();
  me.announce();
  std::thread other([&] { sockets[1][0] = {}; });
  EXPECT_LT(me.sleep(epoch, k_long), k_early);
  other.join();
  me.withdraw();
  for (const auto limit = steady_clock::now() + k_early; !me.end->is_lost(1) && steady_clock::now() < limit;) me.poll();
  EXPECT_TRUE(me.end->is_lost(1));
}

// The socket of a sleeping sender is full, and the receiver then reads a part of the payload.
TEST(net_sleep_once, ends_when_a_full_socket_has_room) {
  constexpr std::uint64_t k_bytes = std::uint64_t{64} << 20;
  auto sockets = testing::connect_all(2, AF_INET);
  std::array<sleeper, 2> both;
  for (std::size_t r = 0; r < 2; ++r) {
    const auto self = static_cast<rank>(r);
    both[r].end = std::move(*net_endpoint::open({self, 2}, std::move(sockets[r])));
    const edge_spec edge{.outgoing = r == 0, .peer = 1 - self, .capacity = k_bytes};
    both[r].out = both[r].in = both[r].end->attach(5, std::vector<rank>{0, 1}, false, std::vector{edge})->front();
  }
  for (sleeper& each : both) ASSERT_EQ(each.end->link(5, std::vector<member_address>(2, {.far = 5})), status::ok);
  auto& [from, to] = both;
  std::vector<std::byte> source(k_bytes), target(k_bytes);
  arrival news;
  ASSERT_FALSE(to.end->receive(to.in, 1, target.data(), news));
  to.end->flush();
  from.poll();  // reads the `ready` frame of the receiver
  ASSERT_FALSE(from.end->send(from.out, 1, {source.data(), k_bytes}));
  const std::uint32_t epoch = from.epoch();
  from.announce();
  ASSERT_TRUE(from.end->is_listening()) << "the socket is not full";
  std::atomic<bool> has_room{false};
  std::thread other([&] {
    for (const auto limit = steady_clock::now() + k_early; !has_room.load() && steady_clock::now() < limit;) to.poll();
  });
  EXPECT_LT(from.sleep(epoch, k_long), k_early);
  has_room.store(true);
  other.join();
  from.withdraw();
}

TEST(net_sleep_once, ends_when_the_bell_rings) {
  two_sleepers ranks;
  sleeper& me = ranks.both[0];
  std::uint32_t epoch = me.epoch();
  me.announce();
  std::thread other([&] { ring_if_needed(me.bell()); });
  EXPECT_LT(me.sleep(epoch, k_long), k_early);
  other.join();
  EXPECT_LT(me.sleep(epoch, k_long), k_early) << "the bell has rung before the sleep";
  me.withdraw();
  // Until here, no sleep has read the event of the ring. The event must not end the next sleep.
  epoch = me.epoch();
  me.announce();
  EXPECT_GE(me.sleep(epoch, 50ms), 50ms);
  me.withdraw();
}

TEST(net_sleep_once, ends_at_its_timeout) {
  two_sleepers ranks;
  sleeper& me = ranks.both[0];
  const std::uint32_t epoch = me.epoch();
  me.announce();
  for (const auto timeout : {0ms, 1ms, 200ms}) {
    const auto slept = me.sleep(epoch, timeout);
    EXPECT_GE(slept, timeout);
    EXPECT_LT(slept, k_early);
  }
  me.withdraw();
}

TEST(net_sleep_once, ends_at_a_signal_of_the_system) {
  two_sleepers ranks;
  sleeper& me = ranks.both[0];
  struct sigaction action {};
  action.sa_handler = [](int) {};
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  std::atomic<bool> is_awake{false};
  const std::uint32_t epoch = me.epoch();
  me.announce();
  std::thread other([&, thread = pthread_self()] {
    for (const auto limit = steady_clock::now() + k_early; !is_awake.load() && steady_clock::now() < limit;)
      pthread_kill(thread, SIGUSR1);
  });
  EXPECT_LT(me.sleep(epoch, k_long), k_early);
  is_awake.store(true);
  other.join();
  me.withdraw();
  sigaction(SIGUSR1, &before, nullptr);
}

// The caller of the library may be cancelled only after the sleep.
TEST(net_sleep_once, is_no_cancellation_point) {
  two_sleepers ranks;
  sleeper& me = ranks.both[0];
  std::atomic<bool> has_slept{false}, is_cancelled{false};
  me.announce();
  std::thread other([&] {
    for (const auto limit = steady_clock::now() + k_early; !is_cancelled.load() && steady_clock::now() < limit;)
      cpu_relax();
    me.sleep(me.epoch(), 10ms);
    ring(me.bell(), doorbell::waiter);  // writes the eventfd, and the next sleep reads the eventfd
    me.sleep(me.epoch(), 10ms);
    has_slept.store(true);
  });
  pthread_cancel(other.native_handle());
  is_cancelled.store(true);
  other.join();
  EXPECT_TRUE(has_slept.load());
  me.withdraw();
}

TEST(net_sleep_once, belongs_to_a_single_thread) {
  two_sleepers ranks;
  direct_sleep& direct = ranks.both[0].direct();
  EXPECT_TRUE(direct.claim());
  EXPECT_FALSE(direct.claim());
  direct.end();
  EXPECT_TRUE(direct.claim());
  direct.end();
}

// Peers cannot write the eventfd of another process.
TEST(net_sleep_once, is_not_offered_with_a_bell_in_shared_memory) {
  doorbell bell{};
  auto sockets = testing::connect_all(2, AF_INET);
  const auto end = std::move(*net_endpoint::open({0, 2}, std::move(sockets[0]), {.bell = &bell}));
  EXPECT_EQ(end->direct(), nullptr);
}

// An owner that polls beside a claim leaves the watcher unarmed. An owner that polls after the claim arms the watcher.
TEST(net_sleep_once, leaves_the_sockets_to_the_watcher_after_the_claim) {
  two_sleepers ranks;
  auto& [me, peer] = ranks.both;
  ASSERT_FALSE(me.end->arm(me.in, 1));
  me.announce();
  me.bell().wanted.store(1);
  me.poll();
  peer.signal(1);
  const auto is_rung = [&](std::chrono::nanoseconds limit) {
    const std::uint32_t epoch = me.bell().word[doorbell::auxiliary].load();
    sleep_on(me.bell(), doorbell::auxiliary, epoch, limit);
    return me.bell().word[doorbell::auxiliary].load() != 0;
  };
  EXPECT_FALSE(is_rung(100ms));
  me.withdraw();
  me.poll();
  ASSERT_FALSE(me.end->arm(me.in, 2));
  me.poll();
  peer.signal(2);
  for (const auto limit = steady_clock::now() + k_early; steady_clock::now() < limit && !is_rung(10ms);) continue;
  EXPECT_TRUE(is_rung(0ms));
}

// --- hand-overs --------------------------------------------------------------------------------------------------

/// The way in which a reader sleeps. Without a claim, the watcher wakes the reader. A careless reader claims the
/// sockets, but does not wait for the sockets.
enum class manner { direct, without_claim, careless };

struct sleep_counts {
  std::uint64_t sleeps = 0;
  std::uint64_t of_watchers = 0;  ///< number of sleeps of the watchers
  std::uint64_t lost = 0;  ///< number of sleeps that lasted for the whole timeout although the message had arrived
};

void receive(sleeper& me, round_no round, manner how, std::chrono::nanoseconds timeout, sleep_counts& counts) {
  me.bell().polling.store(1);
  bool has_come = me.end->arm(me.in, round);
  const auto is_there = [&] { return has_come = has_come || me.stamp.load() >= round || me.poll() != 0; };
  const auto limit = steady_clock::now() + k_long;
  while (!is_there() && counts.lost < 3 && steady_clock::now() < limit) {
    const std::uint32_t epoch = me.epoch();
    me.bell().sleepers.fetch_add(1);
    if (how != manner::without_claim) (void)me.direct().claim();
    me.bell().polling.store(0);
    if (const bool has_found = is_there(); how == manner::careless || !has_found) {
      const auto before = steady_clock::now();
      how == manner::direct ? me.direct().sleep(epoch, timeout) : sleep_on(me.bell(), doorbell::waiter, epoch, timeout);
      ++counts.sleeps;
      if (steady_clock::now() - before >= timeout && is_there()) ++counts.lost;
    }
    me.bell().sleepers.fetch_sub(1);
    if (how != manner::without_claim) me.direct().end();
    me.bell().polling.store(1);
  }
  me.end->disarm(me.in);
  EXPECT_TRUE(has_come || counts.lost >= 3);
}

/// Sends a message of `from`, either as bytes or by a ring.
void send(sleeper& from, sleeper& to, round_no round, bool by_ring) {
  if (!by_ring) return from.signal(round);
  static thread_local ringer owing(1);
  to.stamp.store(round, std::memory_order_release);
  owing.owe(0, to.bell());
  owing.settle();
}

/// Returns the number of times that the watchers of this process have slept.
std::uint64_t sleeps_of_watchers() {
  std::uint64_t sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "status");
    bool is_watcher = false;
    for (std::string line; std::getline(file, line);) {
      if (line == "Name:\tlsched-net") is_watcher = true;
      if (is_watcher && line.starts_with("voluntary_ctxt_switches:")) sum += std::stoull(line.substr(24));
    }
  }
  return sum;
}

sleep_counts hand_over(round_no rounds, manner how) {
  two_sleepers ranks;
  std::array<sleep_counts, 2> counts;
  const std::uint64_t before = sleeps_of_watchers();
  std::array<std::atomic<bool>, 2> has_failed{};
  const auto run = [&](std::size_t self) {
    sleeper &me = ranks.both[self], &peer = ranks.both[1 - self];
    for (round_no round = 1; round <= rounds && !has_failed[1 - self].load(); ++round) {
      const std::uint64_t dice = mix(2 * round + self);
      if (self == 0) send(me, peer, round, how != manner::without_claim && dice % 2 == 0);
      receive(me, round, how, 10s, counts[self]);
      if (counts[self].lost >= 3 || ::testing::Test::HasFailure()) has_failed[self].store(true);
      if (self == 1) send(me, peer, round, how != manner::without_claim && dice % 2 == 0);
    }
    me.bell().polling.store(1);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  return {counts[0].sleeps + counts[1].sleeps, sleeps_of_watchers() - before, counts[0].lost + counts[1].lost};
}

// The watchers must sleep during all rounds. Otherwise each message would wake two threads.
TEST(net_sleep_once, loses_no_wake_up_in_many_hand_overs) {
  const round_no rounds = testing::full() ? 500'000 : testing::sampled() ? 5'000 : 50'000;
  const sleep_counts counts = hand_over(rounds, manner::direct);
  EXPECT_EQ(counts.lost, 0u);
  EXPECT_LT(counts.of_watchers, 50u);
  EXPECT_GT(counts.sleeps, rounds / 10) << "no thread slept: nothing was tested";
}

// Shows that the test above can detect watchers that wake.
TEST(net_sleep_once, needs_the_watchers_without_a_claim) {
  const sleep_counts counts = hand_over(1'000, manner::without_claim);
  EXPECT_EQ(counts.lost, 0u);
  EXPECT_GT(counts.of_watchers, 50u);
}

// Shows that the tests above can detect a lost wake-up. On a busy machine, the signal may come at another time, so the
// test makes several attempts.
TEST(net_sleep_once, shows_a_lost_wake_up_of_a_claimant_that_waits_only_for_rings) {
  two_sleepers ranks;
  auto& [me, peer] = ranks.both;
  sleep_counts counts;
  for (round_no round = 1; counts.lost == 0 && round <= 20; ++round) {
    std::thread other([&] {
      for (const auto limit = steady_clock::now() + k_early; me.bell().direct.load() == 0;)
        if (steady_clock::now() > limit) break;
      peer.signal(round);
    });
    receive(me, round, manner::careless, 200ms, counts);
    other.join();
  }
  EXPECT_EQ(counts.lost, 1u);
}

}  // namespace
}  // namespace lsched
