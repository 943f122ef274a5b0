// Tests of worlds over several hosts whose ranks die, stop, or lose their network. The hosts are network name spaces,
// so the tests are skipped unless root runs them. LSCHED_TEST_HOST_TRIALS sets the number of trials. If this variable
// is set, each loss must be noticed within the documented time. Otherwise the machine may be busy, and the tests only
// print the times.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "tests/support/barrier.h"
#include "tests/support/child_ranks.h"
#include "tests/support/host_ranks.h"
#include "tests/support/shared_object.h"
#include "tests/support/wait_until.h"

namespace lsched::testing {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr rank k_most_ranks = 8;

/// Memory that the test shares with all ranks.
struct common_state {
  std::array<std::atomic<bool>, k_most_ranks> is_ready{};     ///< whether the rank is about to wait in the barrier
  std::array<std::atomic<bool>, k_most_ranks> has_noticed{};  ///< whether `named` and `at` are set
  std::array<rank, k_most_ranks> named{};
  std::array<clock::time_point, k_most_ranks> at{};
  std::atomic<bool> is_over = false;  ///< whether ranks may end
};

/// A rank of a job in which all ranks but the victim wait in a barrier, until they get PEER.
int wait_for_loss(const network_hosts& net, const host_layout& how, rank self, rank victim, const tcp_store& store,
                  common_state& all) {
  const auto at = static_cast<std::size_t>(self);
  lsched_world* const world = open_on_host(net, how, self, store);
  lsched_schedule* barrier = nullptr;
  diagnostic why;
  if (world == nullptr) return 1;
  if (create_barrier(world, &barrier, &why) != LSCHED_OK)
    return std::fprintf(stderr, "rank %d: create: %s\n", self, why.text), 2;
  all.is_ready[at] = true;
  if (self != victim) {
    const lsched_status answer = lsched_run(barrier, k_limit_ns, &why);
    all.at[at] = clock::now();
    all.named[at] = answer == LSCHED_ERR_PEER ? why.rank : k_no_rank;
    all.has_noticed[at] = true;
  }
  (void)wait_until([&] { return poll(nullptr, 0, 1), all.is_over.load(); }, 60s);
  return 0;
}

struct trial_result {
  std::string error{};
  std::chrono::milliseconds longest{};
};

/// Runs a job, and calls `strike` when all ranks wait. `is_right(self, named)` returns whether the error of rank `self`
/// may name the rank `named`.
trial_result strike_job(const host_layout& how, rank victim,
                        const std::function<void(network_hosts&, child_ranks&)>& strike,
                        const std::function<bool(rank self, rank named)>& is_right, bool dies) {
  network_hosts net(how.hosts());
  if (!net.exist()) return {"the hosts cannot be made"};
  shared_object<common_state> all;
  const tcp_store store(how.ranks);
  child_ranks children(how.ranks, [&](rank self) { return wait_for_loss(net, how, self, victim, store, *all); });
  const auto holds_for_all = [&](const auto& flags, bool with_victim) {
    for (rank r = 0; r < how.ranks; ++r)
      if ((r != victim || with_victim) && !flags[static_cast<std::size_t>(r)]) return false;
    return true;
  };
  const auto wait_for_all = [&](const auto& flags, bool with_victim) {
    return wait_until([&] { return poll(nullptr, 0, 1), holds_for_all(flags, with_victim); }, 30s);
  };
  if (!wait_for_all(all->is_ready, true)) return {"not all ranks are ready: " + children.wait(0)};
  (void)poll(nullptr, 0, 20);  // gives the ranks time to fall asleep
  const auto begin = clock::now();
  strike(net, children);
  trial_result found;
  if (!wait_for_all(all->has_noticed, false)) found.error = "a rank has noticed nothing; ";
  for (rank r = 0; r < how.ranks; ++r) {
    const auto at = static_cast<std::size_t>(r);
    if (r == victim || !all->has_noticed[at]) continue;
    found.longest = std::max(found.longest, std::chrono::ceil<std::chrono::milliseconds>(all->at[at] - begin));
    if (!is_right(r, all->named[at]))
      found.error += "rank " + std::to_string(r) + " names " + std::to_string(all->named[at]) + "; ";
  }
  all->is_over = true;
  for (rank r = 0; r < how.ranks; ++r)
    if (!dies || r != victim) found.error += children.wait(r);
  return found;
}

bool can_make_hosts() { return network_hosts(1).exist(); }

/// Runs trials with all layouts and victims in turn. `limit` is the maximum time until all ranks have noticed the loss.
template <class Trial>
void repeat(const char* what, Trial&& trial, std::chrono::milliseconds limit) {
  if (!can_make_hosts()) GTEST_SKIP() << "only root can make hosts";
  const host_layout layouts[]{{3, 1}, {5, 2}, {6, 3}, {7, 2}};
  const int number = requested_host_trials() == 0 ? 2 : requested_host_trials();
  std::vector<std::chrono::milliseconds> times;
  for (int k = 0; k < number; ++k) {
    const host_layout& how = layouts[k % 4];
    const rank victim = (k / 4 + k) % how.ranks;
    const trial_result found = trial(how, victim);
    EXPECT_EQ(found.error, "") << what << ", trial " << k << ", victim " << victim << " of " << how.ranks;
    if (requested_host_trials() != 0) {
      EXPECT_LE(found.longest, limit) << what << ", trial " << k;
    }
    times.push_back(found.longest);
  }
  std::ranges::sort(times);
  std::printf("%s: %d trials, median %d ms, longest %d ms\n", what, number,
              static_cast<int>(times[times.size() / 2].count()), static_cast<int>(times.back().count()));
}

TEST(hosts, name_a_rank_that_was_killed) {
  repeat(
      "kill -9",
      [](const host_layout& how, rank victim) {
        return strike_job(
            how, victim, [&](network_hosts&, child_ranks& children) { children.kill(victim); },
            [&](rank, rank named) { return named == victim; }, true);
      },
      50ms);
}

/// Returns whether the rank names a rank on the other side of the network partition.
bool names_other_side(const host_layout& how, rank victim, rank self, rank named) {
  const int lost = how.host_of(victim);
  return named >= 0 && (how.host_of(self) == lost) != (how.host_of(named) == lost);
}

TEST(hosts, name_a_rank_behind_a_link_that_is_down) {
  repeat(
      "link down",
      [](const host_layout& how, rank victim) {
        return strike_job(
            how, victim, [&](network_hosts& net, child_ranks&) { net.cut(how.host_of(victim)); },
            [&](rank self, rank named) { return names_other_side(how, victim, self, named); }, false);
      },
      5000ms);
}

TEST(hosts, name_a_rank_that_receives_nothing) {
  repeat(
      "one-way drop",
      [](const host_layout& how, rank victim) {
        return strike_job(
            how, victim, [&](network_hosts& net, child_ranks&) { net.drop_frames_to(how.host_of(victim)); },
            [&](rank self, rank named) { return names_other_side(how, victim, self, named); }, false);
      },
      5000ms);
}

/// A rank that sums a vector of 128 MiB several times.
int sum_large(const network_hosts& net, const host_layout& how, rank self, const tcp_store& store, common_state& all) {
  constexpr std::uint64_t k_count = std::uint64_t{16} << 20;
  lsched_world* const world = open_on_host(net, how, self, store);
  std::vector<std::int64_t> vector(k_count, self + 1);
  const lsched_collective_desc desc{.struct_size = sizeof desc,
                                    .collective = "allreduce",
                                    .input = vector.data(),
                                    .output = vector.data(),
                                    .count = k_count,
                                    .dtype = LSCHED_I64,
                                    .reduction = LSCHED_SUM};
  lsched_schedule* schedule = nullptr;
  diagnostic why;
  if (world == nullptr || lsched_collective_create(world, &desc, &schedule, &why) != LSCHED_OK) return 1;
  all.is_ready[static_cast<std::size_t>(self)] = true;
  const std::int64_t sum = how.ranks * (how.ranks + 1) / 2;
  for (int round = 0; round < 2; ++round) {
    std::ranges::fill(vector, self + 1);
    if (lsched_run(schedule, 60'000'000'000, &why) != LSCHED_OK)
      return std::fprintf(stderr, "rank %d: %s\n", self, why.text), 2;
    if (std::ranges::any_of(vector, [sum](std::int64_t one) { return one != sum; })) return 3;
  }
  if (lsched_schedule_destroy(schedule, k_limit_ns, &why) != LSCHED_OK) return 4;
  return lsched_world_close(world) == LSCHED_OK ? 0 : 5;
}

// The kernel of a stopped rank still acknowledges bytes and probes, so the rank is not lost.
TEST(hosts, wait_for_a_rank_that_is_stopped) {
  if (!can_make_hosts()) GTEST_SKIP() << "only root can make hosts";
  const host_layout how{3, 1};
  network_hosts net(how.hosts());
  shared_object<common_state> all;
  const tcp_store store(how.ranks);
  child_ranks children(how.ranks, [&](rank self) { return sum_large(net, how, self, store, *all); });
  const auto is_ready = [&] { return all->is_ready[0] && all->is_ready[1] && all->is_ready[2]; };
  ASSERT_TRUE(wait_until([&] { return poll(nullptr, 0, 1), is_ready(); }, 30s));
  (void)poll(nullptr, 0, 100);  // gives the ranks time to start the first round
  children.stop(1);
  (void)poll(nullptr, 0, requested_host_trials() == 0 ? 5'000 : 10'000);  // longer than LSCHED_NET_LOST_AFTER
  children.resume(1);
  EXPECT_EQ(children.wait(), "");
}

// Each host has an interface with the address 172.17.0.1, as hosts with Docker have.
TEST(hosts, open_with_equal_addresses) {
  if (!can_make_hosts()) GTEST_SKIP() << "only root can make hosts";
  const host_layout how{5, 2};
  network_hosts net(how.hosts());
  for (int host = 0; host < how.hosts(); ++host) net.add_equal_interface(host);
  const tcp_store store(how.ranks);
  child_ranks children(how.ranks, [&](rank self) {
    lsched_world* const world = open_on_host(net, how, self, store);
    if (world == nullptr || sum_over(world, self) != 10) return 1;
    return lsched_world_close(world) == LSCHED_OK ? 0 : 2;
  });
  EXPECT_EQ(children.wait(), "");
}

}  // namespace
}  // namespace lsched::testing
