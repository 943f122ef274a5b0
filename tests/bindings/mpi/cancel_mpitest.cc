// Tests of cancelled schedules (docs/reference/cancel.md). The ranks communicate only through MPI, or through MPI
// between emulated nodes and through shared memory inside a node. Run as `mpiexec -n {2,3,5} bindings_cancel`.
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "bindings/c/lsched_mpi.h"
#include "tests/support/cancel_trials.h"
#include "tests/support/mpi_main.h"

namespace {

using namespace std::chrono_literals;
using lsched::testing::trial_end;

constexpr std::size_t k_most_copied = 1500;  ///< elements of the longest message that is sent from a copy

lsched::world open_nodes_of(int ranks_per_node) {
  setenv("LSCHED_RANKS_PER_NODE", std::to_string(ranks_per_node).c_str(), 1);
  lsched_world* world = nullptr;
  lsched_diagnostic why{.struct_size = sizeof why};
  if (lsched_world_open_mpi(MPI_COMM_WORLD, LSCHED_MPI_AUTO, nullptr, &world, &why) != LSCHED_OK) {
    ADD_FAILURE() << why.text;
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return lsched::world(world);
}

template <class Call>
lsched_status status_of(const Call& call) {
  try {
    call();
    return LSCHED_OK;
  } catch (const lsched::error& why) {
    return why.status();
  }
}

/// The outcomes of one trial on all ranks.
class gathered_ends {
 public:
  explicit gathered_ends(std::int32_t ranks) : all_(static_cast<std::size_t>(ranks)) {}

  void put(trial_end mine) {
    MPI_Allgather(&mine, 1, MPI_UINT8_T, all_.data(), 1, MPI_UINT8_T, MPI_COMM_WORLD);
    for (const trial_end one : all_) ++times_[one];
  }
  trial_end look(std::int32_t other) const { return all_[static_cast<std::size_t>(other)]; }
  std::uint64_t times(trial_end which) { return times_[which]; }

 private:
  std::vector<trial_end> all_;
  std::map<trial_end, std::uint64_t> times_;
};

TEST(cancel_over_mpi, unwinding_leaves_nothing_behind) {
  const std::uint64_t trials = std::getenv("LSCHED_TEST_FULL") != nullptr ? 2000 : 60;
  for (const int ranks_per_node : {1, 2}) {
    lsched::world mine = open_nodes_of(ranks_per_node);
    gathered_ends ends(mine.size());
    lsched::testing::run_cancel_trials(mine, trials, k_most_copied,
                                       {[&](std::uint64_t, trial_end mine_is) { ends.put(mine_is); },
                                        [&](std::uint64_t, std::int32_t other) { return ends.look(other); }});
    for (const trial_end one : {trial_end::finished, trial_end::timed_out, trial_end::was_told})
      EXPECT_GT(ends.times(one), 0u)
          << "the trials do not have all outcomes";  // how often each outcome occurs depends on the machine
    mine.close();
  }
}

// MPI cannot cancel a long message in flight. Therefore cancelling a schedule with such a message returns UNSUPPORTED,
// unless the message has arrived before the cancel.
bool is_end(lsched_status answer) { return answer == LSCHED_OK || answer == LSCHED_ERR_UNSUPPORTED; }

TEST(cancel_over_mpi, with_long_messages_on_their_way_ends_the_schedule_and_nothing_else) {
  std::vector<double> large(100'000, 1.0);  // the memory must outlive the world
  lsched::world mine = open_nodes_of(1);
  lsched::schedule sum = mine.allreduce<double>(large, LSCHED_SUM, "ring");
  lsched::schedule barrier = mine.barrier();
  if (mine.rank() == 0) {
    EXPECT_EQ(status_of([&] { sum.run(50ms); }), LSCHED_ERR_TIMEOUT);
    EXPECT_TRUE(is_end(status_of([&] { sum.cancel(); })));
    MPI_Barrier(MPI_COMM_WORLD);
  } else {
    MPI_Barrier(MPI_COMM_WORLD);  // until rank 0 has cancelled
    EXPECT_EQ(status_of([&] { sum.run(20s); }), LSCHED_ERR_CANCELLED);
  }
  EXPECT_TRUE(is_end(status_of([&] { sum.close(); })));
  barrier.run(20s);
  barrier.close();
  mine.close();
}

}  // namespace
