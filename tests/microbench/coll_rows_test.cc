// Which rows of MPI count as its best.
#include "microbench/coll/coll_sweep.h"

#include <gtest/gtest.h>

namespace lsched::bench {
namespace {

coll_row row(const char* impl, double us, double wrong = 0) {
  return {.collective = "bcast", .impl = impl, .bytes = 8, .us = summarise({us}), .wrong = wrong};
}

TEST(CollRows, the_best_of_mpi_is_right_and_its_own) {
  const std::vector<coll_row> rows{row("libsched", 1), row("mpi", 2, 3), row("mpi", 5), row("mpi", 4), {.impl = "mpi"}};
  EXPECT_DOUBLE_EQ(best_of_mpi(rows), 4);
  EXPECT_DOUBLE_EQ(best_of_mpi(std::vector<coll_row>{row("libsched", 1), row("mpi", 2, 3)}), 0);
}

}  // namespace
}  // namespace lsched::bench
