// Tests of worlds that are split from other worlds. The ranks communicate only through MPI, or through MPI between
// emulated nodes and through shared memory inside a node. Run as `mpiexec -n {2,3,5} bindings_worlds`.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>
#include <string>

#include "bindings/c/lsched_mpi.h"
#include "tests/support/barrier.h"
#include "tests/support/list_programs.h"
#include "tests/support/message_programs.h"
#include "tests/support/mpi_main.h"
#include "tests/support/thread_ranks.h"
#include "tests/support/world_programs.h"

namespace lsched::testing {
namespace {

lsched_world* open_nodes_of(int ranks_per_node, std::uint64_t commit_timeout_ns = k_limit_ns) {
  setenv("LSCHED_RANKS_PER_NODE", std::to_string(ranks_per_node).c_str(), 1);
  lsched_config config = test_config();
  config.commit_timeout_ns = commit_timeout_ns;
  lsched_world* world = nullptr;
  diagnostic why;
  if (lsched_world_open_mpi(MPI_COMM_WORLD, LSCHED_MPI_AUTO, &config, &world, &why) != LSCHED_OK) {
    ADD_FAILURE() << why.text;
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return world;
}

TEST(worlds_over_mpi, random_programs_compute_what_they_promise) {
  const std::uint64_t last = std::getenv("LSCHED_TEST_FULL") != nullptr ? 100 : 4;
  for (const int ranks_per_node : {1, 2})
    for (std::uint64_t seed = 1; seed <= last; ++seed)
      EXPECT_EQ(perform_random_program(seed, open_nodes_of(ranks_per_node)), "")
          << "seed " << seed << ", " << ranks_per_node << " ranks a node";
}

TEST(worlds_over_mpi, counts_of_a_round_reach_whoever_does_not_know_them) {
  const std::uint64_t last = std::getenv("LSCHED_TEST_FULL") != nullptr ? 200 : 12;
  for (const int ranks_per_node : {1, 2}) {
    lsched_world* const world = open_nodes_of(ranks_per_node);
    for (std::uint64_t seed = 1; seed <= last; ++seed)
      EXPECT_EQ(perform_list_program(seed, world), "") << "seed " << seed << ", " << ranks_per_node << " ranks a node";
    EXPECT_EQ(lsched_world_close(world), LSCHED_OK);
  }
}

TEST(worlds_over_mpi, messages_arrive_once_and_in_order) {
  const std::uint64_t last = std::getenv("LSCHED_TEST_FULL") != nullptr ? 500 : 12;
  for (const int ranks_per_node : {1, 2}) {
    lsched_world* const world = open_nodes_of(ranks_per_node);
    for (std::uint64_t seed = 1; seed <= last; ++seed)
      EXPECT_EQ(perform_message_program(seed, world), "")
          << "seed " << seed << ", " << ranks_per_node << " ranks a node";
    EXPECT_EQ(lsched_world_close(world), LSCHED_OK);
  }
}

// If a commit times out, a rank returns before rank 0 has announced the outcome. If rank 0 itself is late, the commit
// can succeed on rank 0. In this case the test cancels the schedule.
TEST(worlds_over_mpi, a_commit_that_times_out_does_so_for_all_and_the_world_goes_on) {
  lsched_world* const world = open_nodes_of(1, 100'000'000);
  const std::int32_t self = lsched_rank(world), size = lsched_size(world);
  for (std::int32_t late = 0; late < size; ++late) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (self == late) MPI_Barrier(MPI_COMM_WORLD);  // waits until the commits of the other ranks have timed out
    diagnostic why;
    lsched_schedule* barrier = nullptr;
    const lsched_status answer = create_barrier(world, &barrier, &why);
    if (self != late) MPI_Barrier(MPI_COMM_WORLD);
    if (self == 0 && late == 0 && answer == LSCHED_OK)
      EXPECT_EQ(lsched_run(barrier, k_limit_ns, &why), LSCHED_ERR_CANCELLED) << why.text;
    else
      EXPECT_EQ(answer, LSCHED_ERR_TIMEOUT) << why.text;
    EXPECT_EQ(lsched_schedule_destroy(barrier, k_limit_ns, &why), LSCHED_OK) << why.text;
    MPI_Barrier(MPI_COMM_WORLD);
    ASSERT_EQ(create_barrier(world, &barrier, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(lsched_run(barrier, k_limit_ns, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(lsched_schedule_destroy(barrier, k_limit_ns, &why), LSCHED_OK) << why.text;
  }
  EXPECT_EQ(lsched_world_close(world), LSCHED_OK);
}

}  // namespace
}  // namespace lsched::testing
