// Tests of training loops on several hosts, in which ranks die and hosts are lost (docs/reference/shrink.md). The hosts
// are network namespaces, so the tests are skipped unless root runs them. LSCHED_TEST_HOST_TRIALS sets the number of
// trials, and LSCHED_TEST_HOST_SEED sets the seed of the first trial.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "libsched/schedule/draw.h"
#include "tests/support/host_ranks.h"
#include "tests/support/network_hosts.h"
#include "tests/support/shared_memory_names.h"
#include "tests/support/shrink_trials.h"

namespace lsched::testing {
namespace {

/// Returns one to three losses of ranks and hosts. At most one host loses its network, and most of the living ranks are
/// on other hosts. Otherwise no rank might continue.
shrink_trial losses_on_hosts(std::uint64_t seed) {
  const std::uint64_t draw = mix(seed);
  const int losses = 1 + static_cast<int>(draw % 3);
  const int hosts = static_cast<int>((draw >> 4) % static_cast<std::uint64_t>(losses + 1));
  std::vector<host_fault> how(static_cast<std::size_t>(hosts), host_fault::processes);
  if (hosts == 1 || hosts == 2) how[0] = static_cast<host_fault>((draw >> 12) % 5);
  const bool is_silent = hosts != 0 && how[0] != host_fault::processes;
  if (!is_silent && (draw >> 40) % 2 == 0) how.push_back(host_fault::glitch);
  return {.seed = seed,
          .activation = std::array{"solo", "majority", "full"}[seed % 3],
          .ranks = 8,
          .kills = losses - hosts,
          .count = std::array<std::uint64_t, 4>{64, 4000, 4000, 100'000}[(draw >> 16) % 4],
          .sums_integers = true,
          .has_views = (draw >> 24) % 3 == 0,
          .schedules = 1 + static_cast<int>((draw >> 28) % 2),
          .kills_in_recovery = (draw >> 32) % 4 != 0,
          .steps = 60,
          .ranks_per_host = 2,
          .has_networks = true,
          .host_faults = how};
}

std::string describe(const shrink_trial& what) {
  std::string text = "seed " + std::to_string(what.seed) + ", " + what.activation + ", " + std::to_string(what.count) +
                     " elements, " + std::to_string(what.schedules) + " schedules, " + std::to_string(what.kills) +
                     " ranks killed" + (what.kills_in_recovery ? ", later losses in a recovery" : "");
  constexpr const char* k_faults[]{"processes of a host killed", "host without power", "host without link",
                                   "host that receives nothing", "outage of a link",   "glitch of a link"};
  for (const host_fault how : what.host_faults) text += std::string(", ") + k_faults[static_cast<int>(how)];
  return text;
}

TEST(hosts, continue_a_training_loop_without_lost_ranks) {
  if (!network_hosts(1).exist()) GTEST_SKIP() << "only root can make hosts";
  const shared_memory_names names;
  const int number = requested_host_trials() == 0 ? 3 : requested_host_trials();
  const char* const wish = std::getenv("LSCHED_TEST_HOST_SEED");
  const std::uint64_t first = wish != nullptr ? std::strtoull(wish, nullptr, 10) : 1;
  std::vector<double> gaps;
  int passed = 0, lost = 0, in_recovery = 0, repeated = 0;
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(number); ++seed) {
    const shrink_trial what = losses_on_hosts(seed);
    const shrink_result found = run_shrink_trial(what);
    EXPECT_EQ(found.complaints, "") << describe(what);
    passed += found.complaints.empty() ? 1 : 0;
    lost += found.deaths;
    in_recovery += found.deaths_in_recovery;
    repeated += found.repeated_rounds;
    gaps.insert(gaps.end(), found.gaps_ms.begin(), found.gaps_ms.end());
  }
  std::printf("training loops: %d of %d trials passed, %d ranks lost, %d of them in a recovery, %d rounds repeated\n",
              passed, number, lost, in_recovery, repeated);
  EXPECT_EQ(names.left_behind(), "");
  if (gaps.empty()) return;
  std::ranges::sort(gaps);
  std::printf("%zu losses during the training; until the last survivor has a result: median %.0f ms, longest %.0f ms\n",
              gaps.size(), gaps[gaps.size() / 2], gaps.back());
}

}  // namespace
}  // namespace lsched::testing
