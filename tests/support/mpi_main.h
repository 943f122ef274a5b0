// The main function of a googletest program that mpiexec starts.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include "tests/support/process_limit.h"

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  lsched::testing::limit_this_process();
  ::testing::InitGoogleTest(&argc, argv);
  const int answer = RUN_ALL_TESTS();
  MPI_Finalize();
  return answer;
}
