// Tests of blame: if one rank of a job ends or stops at any moment, the errors of all other ranks must name that rank.
//
// The jobs are started by `lsched run`, so that the launcher is tested, too. The program of the ranks is blame_rank.cc.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bindings/c/lsched.h"
#include "libsched/schedule/draw.h"
#include "tests/bindings/blame/blame_ground.h"

namespace lsched::testing {
namespace {

struct planned_job {
  std::string family, end;
  std::uint64_t seed;
  std::string wrapper{};  ///< command that starts the program of a rank, or empty
  std::int32_t ranks() const { return static_cast<std::int32_t>(3 + mix(seed ^ 77) % 6); }
  bool is_stop() const { return end == "stop"; }
};

/// The counters of many jobs. Thread-safe.
struct tally {
  std::atomic<std::uint64_t> jobs{0}, reports{0}, early{0};
  std::mutex guard{};
  std::string complaints{};
  std::uint64_t wrong = 0;

  void complain(const planned_job& what, const std::string& text) {
    const std::lock_guard lock(guard);
    if (++wrong <= 20)
      complaints += what.family + " " + what.end + " " + std::to_string(what.seed) + ", " +
                    std::to_string(what.ranks()) + " ranks: " + text + "\n";
  }
};

/// Checks the reports of a job. On a busy machine, a rank may time out before the victim has stopped. In this case the
/// function ignores the remaining reports.
void check(const planned_job& what, const shared_ground& ground, std::int32_t victim, tally& all) {
  const lsched_status expected = what.is_stop() ? LSCHED_ERR_TIMEOUT : LSCHED_ERR_PEER;
  for (std::int32_t r = 0; r < what.ranks(); ++r) {
    const blame_ground::report& one = ground->reports[r];
    if (r == victim) continue;
    if (one.is_there.load() == 2 && what.is_stop()) {
      ++all.early;
      return;
    }
    ++all.reports;
    if (one.is_there.load() == 0)
      all.complain(what, "rank " + std::to_string(r) + " has not reported");
    else if (one.status != expected || one.named != victim)
      all.complain(what, "rank " + std::to_string(r) + " names rank " + std::to_string(one.named) + ", not " +
                             std::to_string(victim) + ": " +
                             lsched_status_name(static_cast<lsched_status>(one.status)) + ": " + one.text);
  }
}

void perform(const planned_job& what, tally& all) {
  static std::atomic<std::uint64_t> number{0};
  const shared_ground ground(
      "/tmp/lsched-blame-" + std::to_string(getpid()) + "-" + std::to_string(number.fetch_add(1)), true);
  const std::string command = std::string(LSCHED_TEST_COMMAND) + " run -n " + std::to_string(what.ranks()) +
                              " --timeout 60 " + what.wrapper + " " + LSCHED_TEST_BLAME_RANK + " " + ground.path() +
                              " " + what.family + " " + what.end + " " + std::to_string(what.seed) + " >/dev/null 2>&1";
  (void)std::system(command.c_str());
  const std::uint64_t drawn = mix(mix(what.seed) ^ 1);  // the same formula as in job::victim() of blame_rank.cc
  check(what, ground, static_cast<std::int32_t>(drawn % static_cast<std::uint64_t>(what.ranks())), all);
  ++all.jobs;
}

/// Runs the jobs. At most `at_a_time` jobs run at the same time.
void perform_all(const std::vector<planned_job>& jobs, std::size_t at_a_time) {
  tally all;
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> workers;
  for (std::size_t i = 0; i < at_a_time; ++i)
    workers.emplace_back([&] {
      for (std::size_t job = 0; (job = next.fetch_add(1)) < jobs.size();) perform(jobs[job], all);
    });
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(all.wrong, 0u) << all.complaints;
  EXPECT_GT(all.reports.load(), all.jobs.load());
  EXPECT_LE(all.early.load() * 4, all.jobs.load()) << "the machine is too busy for the limits of this test";
  std::printf("%llu jobs, %llu reports, %llu wrong\n", static_cast<unsigned long long>(all.jobs.load()),
              static_cast<unsigned long long>(all.reports.load()), static_cast<unsigned long long>(all.wrong));
}

std::vector<planned_job> deaths(std::size_t number, std::uint64_t first_seed) {
  std::vector<planned_job> jobs;
  for (std::size_t i = 0; i < number; ++i)
    jobs.push_back({k_families[i % k_families.size()], k_ends[i / k_families.size() % k_deaths], first_seed + i});
  return jobs;
}

/// Returns jobs in which the victim stops. The family "opening" is not included. If a rank stops while ranks open their
/// worlds, only the launcher's time limit ends the job.
std::vector<planned_job> stops(std::size_t number, std::uint64_t first_seed) {
  std::vector<planned_job> jobs;
  for (std::size_t i = 0; i < number; ++i)
    jobs.push_back({k_families[i % (k_families.size() - 1)], "stop", first_seed + i});
  return jobs;
}

TEST(blame, every_report_names_the_rank_that_has_died) { perform_all(deaths(k_families.size() * k_deaths, 1), 2); }
TEST(blame, every_timeout_names_the_rank_that_is_stopped) { perform_all(stops(6, 1), 6); }
/// Many sandboxes refuse `kill`, and some also refuse set_robust_list.
TEST(blame, deaths_are_noticed_in_sandboxes_that_refuse_the_usual_calls) {
  std::vector<planned_job> jobs;
  for (const std::string calls : {"kill", "set_robust_list", "kill,set_robust_list"})
    for (const std::string family : {"rounds", "opening", "messages"})
      jobs.push_back({family, "_exit", 500 + jobs.size(), "env LSCHED_TEST_REFUSED_CALLS=" + calls});
  perform_all(jobs, 2);
}

/// Each rank runs in its own name space of processes, where the rank has process id 1.
TEST(blame, deaths_are_noticed_where_each_rank_has_a_name_space_of_processes) {
  if (std::system("unshare -pf true >/dev/null 2>&1") != 0) GTEST_SKIP() << "name spaces are not permitted";
  std::vector<planned_job> jobs;
  for (const std::string family : {"rounds", "creates", "messages", "partial"})
    jobs.push_back({family, "_exit", 600 + jobs.size(), "unshare -pf"});
  perform_all(jobs, 2);
}

TEST(blame_soak, every_report_names_the_rank_that_has_died) { perform_all(deaths(2000, 1000), 2); }
TEST(blame_soak, every_timeout_names_the_rank_that_is_stopped) { perform_all(stops(400, 1000), 6); }

}  // namespace
}  // namespace lsched::testing
