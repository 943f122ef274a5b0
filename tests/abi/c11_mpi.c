/* A program whose three ranks communicate through MPI. Checks that lsched_mpi.h is plain C11 and includes all headers
 * that it needs. The ranks compute a sum. The argument selects the transport and the expected result:
 *
 * - auto: the sum must be right, under mpiexec and under `lsched run`;
 * - only: all messages are sent through MPI, and the sum must be right;
 * - refused: the program expects the error that libsched_mpi is from another build, whose id is 000000000000;
 * - local_only: the program expects the error that LSCHED_MPI_ONLY is impossible under `lsched run`. */
#include <stdio.h>
#include <string.h>

#include "lsched_mpi.h"

static int is_right_sum(lsched_world* world, lsched_diagnostic* why) {
  lsched_schedule* sum;
  const double size = lsched_size(world);
  double mine = 1 + lsched_rank(world), total = 0;
  lsched_collective_desc desc = {.struct_size = sizeof desc,
                                 .collective = "allreduce",
                                 .input = &mine,
                                 .output = &total,
                                 .count = 1,
                                 .dtype = LSCHED_F64,
                                 .reduction = LSCHED_SUM};
  if (lsched_collective_create(world, &desc, &sum, why) != LSCHED_OK) return 0;
  const lsched_status ran = lsched_run(sum, UINT64_C(20000000000), why);
  return lsched_schedule_destroy(sum, UINT64_C(20000000000), why) == LSCHED_OK && ran == LSCHED_OK &&
         2 * total == size * (size + 1);
}

int main(int count, char** words) {
  const char* const wish = count > 1 ? words[1] : "";
  const lsched_mpi_transport transport = strstr(wish, "only") != NULL ? LSCHED_MPI_ONLY : LSCHED_MPI_AUTO;
  int level, is_right;
  lsched_world* world;
  lsched_diagnostic why = {.struct_size = sizeof why};
  MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
  const lsched_status opened = lsched_world_open_mpi(MPI_COMM_WORLD, transport, NULL, &world, &why);
  if (strcmp(wish, "refused") == 0)
    is_right = opened == LSCHED_ERR_VERSION &&
               strstr(why.text, "build 000000000000, but libsched has version ") != NULL &&
               strstr(strstr(why.text, "libsched has version"), lsched_version()) != NULL;
  else if (strcmp(wish, "local_only") == 0)
    is_right = opened == LSCHED_ERR_UNSUPPORTED && strstr(why.text, "LSCHED_MPI_ONLY, but `lsched run`") != NULL;
  else
    is_right = opened == LSCHED_OK && lsched_size(world) == 3 && is_right_sum(world, &why) &&
               lsched_world_close(world) == LSCHED_OK;
  if (!is_right) fprintf(stderr, "opening: %s; %s\n", lsched_status_name(opened), why.text);
  MPI_Finalize();
  return !is_right;
}
