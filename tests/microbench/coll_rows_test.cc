// Tests of the choice of the best row of MPI among the rows of a benchmark.
#include "microbench/coll/coll.h"

#include <gtest/gtest.h>

namespace lsched::bench {
namespace {

result row(const char* impl, double us, int wrong = 0, int rounds = 1) {
  return {{"impl", impl}, {"us_median", us}, {"wrong", wrong}, {"rounds", rounds}};
}

TEST(CollRows, the_best_of_mpi_is_right_and_its_own) {
  const std::vector<result> rows{row("libsched", 1), row("mpi", 2, 3), row("mpi", 5), row("mpi", 4),
                                 row("mpi", 0, 0, 0)};
  EXPECT_DOUBLE_EQ(best_of_mpi(rows), 4);
  EXPECT_DOUBLE_EQ(best_of_mpi(std::vector<result>{row("libsched", 1), row("mpi", 2, 3)}), 0);
}

TEST(CollRows, an_algorithm_is_set_against_the_best_of_the_others) {
  const auto of = [](const char* algorithm, double us, int wrong = 0) {
    result made = row("libsched", us, wrong);
    made["algorithm"] = algorithm;
    return made;
  };
  std::vector<result> rows{of("mine", 6), of("mine", 4), of("ring", 1, 2), of("ring", 3), of("tree", 2)};
  const result line = comparison_of(rows, "mine");
  EXPECT_EQ(line, (result{{"own_us", 4.0}, {"best", "tree"}, {"best_us", 2.0}, {"ratio", 2.0}})) << line;
  rows.push_back(row("mpi", 1));
  EXPECT_EQ(comparison_of(rows, "mine")["best"], "MPI");
  EXPECT_TRUE(comparison_of(rows, "other")["ratio"].is_null());
}

}  // namespace
}  // namespace lsched::bench
