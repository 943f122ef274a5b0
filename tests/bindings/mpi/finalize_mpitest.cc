// Tests of programs that call MPI_Finalize before they close their worlds. The library must make no MPI call after
// MPI_Finalize. lsched_world_close returns LSCHED_ERR_STATE if the ranks communicate through MPI. Run as `mpiexec -n
// {1,3,5} bindings_finalize`.
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "bindings/c/lsched_mpi.h"
#include "tests/support/process_limit.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

/// A world, the transport between its ranks, and a schedule that still exists when MPI ends.
struct late_world {
  const char* name;
  lsched_mpi_transport transport;
  int ranks_per_node;  ///< 0: no emulated nodes, so all ranks are on one node
  int progress;
  lsched_world* world = nullptr;
  lsched_world* split = nullptr;
  lsched_schedule* sum = nullptr;
  double mine = 1, total = 0;
};

std::vector<late_world> g_worlds{{"mpi", LSCHED_MPI_ONLY, 0, LSCHED_PROGRESS_THREAD},
                                 {"mpi, without a thread", LSCHED_MPI_ONLY, 0, LSCHED_PROGRESS_CALLER},
                                 {"nodes of one", LSCHED_MPI_AUTO, 1, LSCHED_PROGRESS_THREAD},
                                 {"nodes of two", LSCHED_MPI_AUTO, 2, LSCHED_PROGRESS_THREAD},
                                 {"one node", LSCHED_MPI_AUTO, 0, LSCHED_PROGRESS_THREAD}};

int ranks_of_mpi() {
  static int size = 0;
  if (size == 0) MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

bool talks_through_mpi(const late_world& it) {
  const bool is_one_node = it.transport == LSCHED_MPI_AUTO && it.ranks_per_node == 0;
  return ranks_of_mpi() > 1 && !is_one_node;
}

bool open_and_sum(late_world& it) {
  if (it.ranks_per_node != 0) setenv("LSCHED_RANKS_PER_NODE", std::to_string(it.ranks_per_node).c_str(), 1);
  lsched_config config = test_config();
  config.progress = it.progress;
  diagnostic why;
  bool is_right = lsched_world_open_mpi(MPI_COMM_WORLD, it.transport, &config, &it.world, &why) == LSCHED_OK;
  unsetenv("LSCHED_RANKS_PER_NODE");
  lsched_collective_desc desc{.struct_size = sizeof desc,
                              .collective = "allreduce",
                              .input = &it.mine,
                              .output = &it.total,
                              .count = 1,
                              .dtype = LSCHED_F64,
                              .reduction = LSCHED_SUM};
  is_right = is_right && lsched_collective_create(it.world, &desc, &it.sum, &why) == LSCHED_OK &&
             lsched_run(it.sum, k_limit_ns, &why) == LSCHED_OK && it.total == ranks_of_mpi() &&
             lsched_split(it.world, 0, 0, &it.split, &why) == LSCHED_OK;
  if (!is_right) std::fprintf(stderr, "%s: %s\n", it.name, why.text);
  return is_right;
}

TEST(after_finalize, rounds_fail_and_closing_returns_state) {
  for (late_world& it : g_worlds) {
    const lsched_status expected = talks_through_mpi(it) ? LSCHED_ERR_STATE : LSCHED_OK;
    diagnostic why;
    const lsched_status ran = lsched_run(it.sum, k_limit_ns, &why);
    const bool was_given_up_nearby = it.ranks_per_node > 1 && (ran == LSCHED_ERR_CANCELLED || ran == LSCHED_ERR_PEER);
    EXPECT_TRUE(ran == expected || was_given_up_nearby) << it.name << ": " << why.text;
    EXPECT_EQ(lsched_world_close(it.world), LSCHED_ERR_BUSY) << it.name;
    EXPECT_EQ(lsched_schedule_destroy(it.sum, k_limit_ns, &why), LSCHED_OK) << it.name << ": " << why.text;
    EXPECT_EQ(lsched_world_close(it.world), expected) << it.name;
    EXPECT_EQ(lsched_world_close(it.split), expected) << it.name;
  }
}

TEST(after_finalize, opening_returns_state) {
  lsched_world* world = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_world_open_mpi(MPI_COMM_WORLD, LSCHED_MPI_AUTO, nullptr, &world, &why), LSCHED_ERR_STATE);
}

}  // namespace
}  // namespace lsched::testing

int main(int argc, char** argv) {
  using namespace lsched::testing;
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  lsched::testing::limit_this_process();
  ::testing::InitGoogleTest(&argc, argv);
  for (late_world& it : g_worlds)
    if (!open_and_sum(it)) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Finalize();
  return RUN_ALL_TESTS();
}
