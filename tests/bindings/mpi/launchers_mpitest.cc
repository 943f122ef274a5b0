// Tests of lsched_world_open_mpi. It must accept the launcher of the program's MPI library, and refuse the launchers of
// other MPI libraries. It must also refuse programs that mix two MPI libraries. The tests imitate other launchers by
// environment variables. Run as `mpiexec -n {1,3} bindings_launchers`; tests/abi has a test with `lsched run`.
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "bindings/c/lsched_mpi.h"
#include "bindings/mpi/mpi_library.h"
#include "tests/support/mpi_main.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

using variables = std::map<std::string, std::string>;

/// Opens a world with the environment variables `set`. Returns the status, and the error text or the size of the world.
std::pair<lsched_status, std::string> open_under(const variables& set) {
  for (const auto& [name, value] : set) setenv(name.c_str(), value.c_str(), 1);
  lsched_world* world = nullptr;
  diagnostic why;
  const lsched_status answer = lsched_world_open_mpi(MPI_COMM_WORLD, LSCHED_MPI_AUTO, nullptr, &world, &why);
  for (const auto& [name, value] : set) unsetenv(name.c_str());
  const std::string text = answer == LSCHED_OK ? std::to_string(lsched_size(world)) : why.text;
  EXPECT_EQ(lsched_world_close(world), LSCHED_OK);
  return {answer, text};
}

int ranks_of_mpi() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

const std::pair<variables, std::string> k_launches[] = {
    {{{"OMPI_COMM_WORLD_SIZE", "3"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"PMIX_RANK", "0"}},
     "one of 3 processes started by an MPI launcher (OMPI_COMM_WORLD_SIZE, set by Open MPI)"},
    {{{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}}, "one of 2 processes started by an MPI launcher (PMI_SIZE, set by MPICH)"},
    {{{"PMIX_RANK", "1"}}, "one of several processes started by an MPI launcher (PMIX_RANK)"},
    {{{"WORLD_SIZE", "2"}, {"RANK", "0"}}, "one of 2 processes started by torchrun (WORLD_SIZE)"},
    {{{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "0"}},
     "one of 4 processes started by srun (SLURM_STEP_NUM_TASKS)"}};

TEST(mpi_launchers, of_another_mpi_are_refused_where_mpi_has_one_rank) {
  for (const auto& [set, words] : k_launches) {
    const auto [answer, text] = open_under(set);
    if (ranks_of_mpi() > 1) {  // MPI's own launcher has started the ranks, so the variables are those of an outer
                               // launcher
      EXPECT_EQ(std::pair(answer, text), std::pair(LSCHED_OK, std::to_string(ranks_of_mpi()))) << words;
      continue;
    }
    EXPECT_EQ(answer, LSCHED_ERR_UNSUPPORTED) << words;
    EXPECT_NE(text.find(words), std::string::npos) << text;
    EXPECT_NE(text.find("but MPI_COMM_WORLD of " + mpi_library() + " has only this process"), std::string::npos)
        << text;
    variables alone = set;
    alone["LSCHED_WORLD"] = "alone";
    EXPECT_EQ(open_under(alone), std::pair(LSCHED_OK, std::string("1"))) << words;
  }
}

TEST(mpi_launchers, of_a_program_with_mpi_are_not_joined_without_mpi) {
  if (ranks_of_mpi() == 1 || std::getenv("PMI_FD") == nullptr) GTEST_SKIP() << "the launcher has not offered PMI-1";
  setenv("PMI_RANK", "0", 1);  // earlier tests of this program have unset these variables
  setenv("PMI_SIZE", "2", 1);
  lsched_world* world = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_world_open(nullptr, &world, &why), LSCHED_ERR_UNSUPPORTED);
  EXPECT_TRUE(why.says("lsched_world_open_mpi")) << why.text;
  for (const char* const each : {"PMI_RANK", "PMI_SIZE"}) unsetenv(each);
}

TEST(mpi_launchers, that_start_one_process_are_accepted) {
  EXPECT_EQ(open_under({}), std::pair(LSCHED_OK, std::to_string(ranks_of_mpi())));
  EXPECT_EQ(open_under({{"OMPI_COMM_WORLD_SIZE", "1"}, {"PMIX_RANK", "0"}}).first, LSCHED_OK);
}

TEST(mpi_launchers, a_bad_word_is_an_error_on_all_ranks) {
  int self = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &self);
  const auto [answer, text] = open_under(self == 0 ? variables{{"LSCHED_WORLD", "own"}} : variables{});
  EXPECT_EQ(answer, LSCHED_ERR_ARGUMENT);
  EXPECT_NE(text.find("LSCHED_WORLD is \"own\""), std::string::npos) << text;
}

TEST(mixed_mpi, a_program_of_another_header_is_refused_by_both_names) {
  const std::string ours = LSCHED_MPI_HEADER, other = ours == "MPICH" ? "Open MPI" : "MPICH";
  lsched_world* world = nullptr;
  diagnostic why;
  EXPECT_EQ(
      lsched_world_open_mpi_abi(LSCHED_ABI, other.c_str(), MPI_COMM_WORLD, LSCHED_MPI_AUTO, nullptr, &world, &why),
      LSCHED_ERR_UNSUPPORTED);
  EXPECT_TRUE(why.says(("mpi.h of " + other + ", but libsched_mpi with that of " + ours).c_str())) << why.text;
}

TEST(mixed_mpi, families_differ_and_derivatives_do_not) {
  for (const char* library :
       {"MPICH 4.0.2", "CRAY MPICH 8.1", "MVAPICH2 2.3.7", "Intel(R) MPI Library 2021.5 for Linux"}) {
    EXPECT_FALSE(refuse_mixed_mpi("MPICH", "MPICH", library)) << library;
    EXPECT_FALSE(refuse_mixed_mpi("", "MPICH", library)) << library;
    const auto why = refuse_mixed_mpi("Open MPI", "Open MPI", library);
    ASSERT_TRUE(why) << library;
    EXPECT_NE(why->text.find("mpi.h of Open MPI, but the MPI library that runs is " + std::string(library)),
              std::string::npos)
        << why->text;
  }
  const std::string open_mpi = "Open MPI v4.1.4, package: Debian OpenMPI";
  EXPECT_FALSE(refuse_mixed_mpi("Open MPI", "Open MPI", open_mpi));
  ASSERT_TRUE(refuse_mixed_mpi("MPICH", "MPICH", open_mpi));
  EXPECT_NE(
      refuse_mixed_mpi("MPICH", "MPICH", open_mpi)->text.find("mpi.h of MPICH, but the MPI library that runs is Open"),
      std::string::npos);
  EXPECT_FALSE(refuse_mixed_mpi("MPICH", "MPICH", "an MPI of 2031"));
  EXPECT_FALSE(refuse_mixed_mpi(LSCHED_MPI_HEADER, LSCHED_MPI_HEADER, mpi_library()));
}

}  // namespace
}  // namespace lsched::testing
