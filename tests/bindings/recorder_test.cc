// Tests of the records in which ranks publish the op that they wait for (docs/reference/recorder.md). Ranks are
// processes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "bindings/c/lsched.h"
#include "libsched/transport/shm/shm_segment.h"
#include "tests/support/child_ranks.h"
#include "tests/support/launched_rank.h"
#include "tests/support/shared_object.h"
#include "tests/support/wait_until.h"

namespace lsched {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t k_limit_ns = 20'000'000'000;

/// The allreduce of one rank.
struct sum {
  std::vector<double> data = std::vector<double>(10);
  lsched_schedule* schedule = nullptr;

  lsched_status create(lsched_world* world, const char* algorithm) {
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "allreduce",
                                      .input = data.data(),
                                      .output = data.data(),
                                      .count = data.size(),
                                      .dtype = LSCHED_F64,
                                      .reduction = LSCHED_SUM,
                                      .algorithm = algorithm};
    return lsched_collective_create(world, &desc, &schedule, nullptr);
  }
  lsched_status run() const { return lsched_run(schedule, k_limit_ns, nullptr); }
};

/// Returns true if the record shows, within 20 s, that its rank waits for an op of rank `peer`.
bool comes_to_wait_for(const shm_record& who, rank peer) {
  return testing::wait_until([&] {
    const wait_note it = who.wait();
    return it.round != 0 && it.peer == peer;
  });
}

class recorder : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(idle, recorder, ::testing::Values("auto", "spin", "yield"),
                         [](const auto& it) { return std::string(it.param); });

// Rank 0 is the root, which waits first for rank 1, and then for rank 2. The record must name rank 1 first, and rank 2
// later.
TEST_P(recorder, follows_a_wait_that_moves_on) {
  const auto segment = *shm_segment::create(3, std::size_t{64} << 20);
  const testing::shared_object<std::atomic<rank>> last_to_run;
  testing::child_ranks ranks(3, [&](rank self) {
    testing::be_launched(*segment, self);
    setenv("LSCHED_IDLE", GetParam(), 1);
    lsched_world* world = nullptr;
    sum all;
    if (lsched_world_open(nullptr, &world, nullptr) != LSCHED_OK || all.create(world, "tree") != LSCHED_OK) return 10;
    testing::wait_until([&] { return *last_to_run >= self; });
    if (all.run() != LSCHED_OK) return 11;
    return lsched_schedule_destroy(all.schedule, k_limit_ns, nullptr) == LSCHED_OK &&
                   lsched_world_close(world) == LSCHED_OK
               ? 0
               : 12;
  });
  for (const rank peer : {1, 2}) {
    EXPECT_TRUE(comes_to_wait_for(segment->record(0), peer));
    *last_to_run = peer;
  }
  EXPECT_EQ(ranks.wait(), "");
}

// Two threads of a rank run rounds. After a round has ended, the record of the rank must show no wait, even if the
// other thread has driven the engine.
TEST(recorder, has_no_wait_of_a_round_that_is_over) {
  const auto segment = *shm_segment::create(2, std::size_t{64} << 20);
  testing::child_ranks ranks(2, [&](rank self) {
    testing::be_launched(*segment, self);
    lsched_world* world = nullptr;
    sum one, two;
    if (lsched_world_open(nullptr, &world, nullptr) != LSCHED_OK || one.create(world, "auto") != LSCHED_OK ||
        two.create(world, "auto") != LSCHED_OK)
      return 200;
    int still_waiting = 0;
    for (int round = 0; round < 100; ++round) {
      if (self == 1) std::this_thread::sleep_for(1ms);
      std::jthread other([&] { (void)two.run(); });
      if (one.run() != LSCHED_OK) return 201;
      other.join();
      if (segment->record(self).wait().round != 0) ++still_waiting;
    }
    for (const sum& each : {one, two})
      if (lsched_schedule_destroy(each.schedule, k_limit_ns, nullptr) != LSCHED_OK) return 202;
    return lsched_world_close(world) == LSCHED_OK ? still_waiting : 203;
  });
  EXPECT_EQ(ranks.wait(), "");
}

}  // namespace
}  // namespace lsched
