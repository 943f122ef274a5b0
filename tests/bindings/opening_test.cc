// Tests of opening a world under resource limits. The tests fork child processes, which inherit the memory of this
// process. Therefore no test may open a world in this process itself.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "build_options.h"
#include "tests/support/barrier.h"
#include "tests/support/child_ranks.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

TEST(opening, says_so_where_a_limit_leaves_ranks_less_memory_than_there_is) {
  const auto life = [](rank) -> int {
    const rlimit least{std::uint64_t{2} << 30, std::uint64_t{2} << 30};
    if (setrlimit(RLIMIT_AS, &least) != 0) return 2;
    lsched_world* world = nullptr;
    diagnostic why;
    lsched_config config;
    lsched_config_init(&config);
    if (lsched_world_open(&config, &world, &why) != LSCHED_OK) return 3;
    if (!why.says("LSCHED_REGION")) return 4;
    if (lsched_world_close(world) != LSCHED_OK) return 5;
    diagnostic nothing;
    config.region_bytes = 64 << 20;
    if (lsched_world_open(&config, &world, &nothing) != LSCHED_OK) return 6;
    return nothing.text[0] == '\0' ? 0 : 7;
  };
  child_ranks children(1, life);
  EXPECT_EQ(children.wait(), "");
}

/// Opens a world of one rank under a limit of file sizes, creates a barrier, and closes the world. `why` receives the
/// diagnostic of the open.
lsched_status open_under_file_limit(std::uint64_t limit_bytes, std::uint64_t region_bytes, diagnostic& why) {
  const rlimit limit{limit_bytes, RLIM_INFINITY};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return LSCHED_ERR_INTERNAL;
  lsched_config config;
  lsched_config_init(&config);
  config.region_bytes = region_bytes;
  lsched_world* world = nullptr;
  const lsched_status opened = lsched_world_open(&config, &world, &why);
  if (opened != LSCHED_OK) return opened;
  lsched_schedule* barrier = nullptr;
  if (create_barrier(world, &barrier, nullptr) != LSCHED_OK) return LSCHED_ERR_INTERNAL;
  if (lsched_run(barrier, k_limit_ns, nullptr) != LSCHED_OK) return LSCHED_ERR_INTERNAL;
  if (lsched_schedule_destroy(barrier, k_limit_ns, nullptr) != LSCHED_OK) return LSCHED_ERR_INTERNAL;
  return lsched_world_close(world);
}

// In an earlier version, a shared memory segment beyond the file size limit ended the process by SIGXFSZ.
TEST(opening, under_a_file_size_limit_uses_a_smaller_region_or_names_the_limit) {
  const auto life = [](rank) -> int {
    diagnostic smaller;
    if (open_under_file_limit(64 << 20, 0, smaller) != LSCHED_OK || !smaller.says("ulimit -f")) return 2;
    diagnostic fits;
    if (open_under_file_limit(64 << 20, 16 << 20, fits) != LSCHED_OK || fits.text[0] != '\0') return 3;
    diagnostic too_large;
    if (open_under_file_limit(64 << 20, 64 << 20, too_large) != LSCHED_ERR_NOMEM) return 4;
    if (!too_large.says("LSCHED_REGION") || !too_large.says("ulimit -f")) return 5;
    diagnostic none;
    if (open_under_file_limit(4096, 0, none) != LSCHED_ERR_NOMEM || !none.says("ulimit -f")) return 6;
    return 0;
  };
  child_ranks children(1, life);
  EXPECT_EQ(children.wait(), "");
}

/// Opens a world in a process that is not permitted to start threads. Returns 0 if the open returns NOMEM, names the
/// limit, and does not change the signal mask.
int open_without_threads(const std::string& lane, const std::string& progress) {
  const rlimit none{0, 0};
  const bool is_limited = setrlimit(RLIMIT_NPROC, &none) == 0 && (getuid() != 0 || setuid(65534) == 0);
  if (!is_limited) return 2;
  setenv("LSCHED_LANE", lane.c_str(), 1);
  setenv("LSCHED_PROGRESS", progress.c_str(), 1);
  diagnostic why;
  lsched_world* world = nullptr;
  const lsched_status opened = lsched_world_open(nullptr, &world, &why);
  if (opened != LSCHED_ERR_NOMEM || !why.says("ulimit -u")) {
    std::fprintf(stderr, "%s: %s\n", lsched_status_name(opened), why.text);
    return 3;
  }
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return sigismember(&blocked, SIGTERM) == 0 ? 0 : 4;
}

TEST(opening, returns_NOMEM_where_the_system_refuses_a_thread) {
  std::vector<std::pair<std::string, std::string>> cases{{"inline", "thread"}};
  if (LSCHED_HAVE_TBB)  // with these settings, the thread that cannot start is a worker of the lane
    cases.insert(cases.end(), {{"tbb:1", "thread"}, {"tbb:3", "thread"}, {"tbb:1", "caller"}});
  for (const auto& [lane, progress] : cases) {
    child_ranks children(1, [&](rank) { return open_without_threads(lane, progress); });
    EXPECT_EQ(children.wait(), "") << lane << ", " << progress;
  }
}

}  // namespace
}  // namespace lsched::testing
