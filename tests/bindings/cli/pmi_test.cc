// Tests of programs without MPI under the mpiexec of MPICH. The programs open their worlds by PMI-1.
#include <gtest/gtest.h>

#include <string>

#include "tests/bindings/cli/command_line.h"

namespace lsched::testing {
namespace {

/// Starts ranks with variables such as "A=1 B=2". `program` is a shell command. In this command, $RANK is the program
/// of a rank.
outcome under_mpiexec(int ranks, const std::string& variables, const std::string& program) {
  return shell("export RANK=" LSCHED_TEST_STARTER_RANK " " + variables + "; timeout 50 mpiexec.mpich -n " +
               std::to_string(ranks) + " " + program);
}

class pmi : public ::testing::Test {
  void SetUp() override {
    if (shell("command -v mpiexec.mpich").status != 0) GTEST_SKIP() << "mpiexec.mpich is not installed";
  }
};

TEST_F(pmi, ranks_without_mpi_make_a_world) {
  for (const int ranks : {1, 2, 3, 5}) {
    const outcome it = under_mpiexec(ranks, "", LSCHED_TEST_STARTER_RANK " child");
    EXPECT_EQ(it.status, 0) << it.out;
    EXPECT_EQ(count_of(it.out, "a world of " + std::to_string(ranks) + "\n"), ranks) << it.out;
  }
}

TEST_F(pmi, ranks_of_several_hosts_make_a_world) {
  for (const int ranks : {2, 3, 5})
    for (const std::string per_node : {"1", "2"}) {
      const outcome it = under_mpiexec(ranks, "LSCHED_NET_INTERFACES=lo LSCHED_RANKS_PER_NODE=" + per_node,
                                       LSCHED_TEST_STARTER_RANK " plain");
      EXPECT_EQ(it.status, 0) << ranks << ", " << per_node << ": " << it.out;
      EXPECT_EQ(it.out, "");
    }
}

TEST_F(pmi, a_program_that_a_rank_starts_is_no_rank) {
  const std::pair<std::string, std::string> modes[] = {{"before", "This process was started by rank "},
                                                       {"after", "processes started by an MPI launcher"},
                                                       {"forked", "This process was started by rank "}};
  for (const auto& [mode, why] : modes) {
    const outcome it = under_mpiexec(3, "", LSCHED_TEST_STARTER_RANK " " + mode);
    EXPECT_EQ(it.status, 0) << mode << ": " << it.out;
    EXPECT_EQ(count_of(it.out, why), 3) << mode << ": " << it.out;
  }
}

TEST_F(pmi, a_rank_that_does_not_open_its_world_ends_the_opening) {
  const outcome it =
      under_mpiexec(3, "LSCHED_START_TIMEOUT=1", "sh -c 'test $PMI_RANK != 1 || exec sleep 4; exec $RANK child'");
  EXPECT_NE(it.status, 0);
  EXPECT_GE(count_of(it.out, "LSCHED_ERR_TIMEOUT: not all 3 ranks opened their world in time"), 1) << it.out;
}

}  // namespace
}  // namespace lsched::testing
