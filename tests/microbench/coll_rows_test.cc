// Which rows of MPI count as its best.
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

}  // namespace
}  // namespace lsched::bench
