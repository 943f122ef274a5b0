/* Ranks in rows of two. Each rank gets the sum of its row and of its column.  lsched run -n 4 build/examples/groups */
#include <lsched_must.h>

int main(void) {
  lsched_world *world, *row, *column;
  lsched_schedule *across, *down;
  lsched_must(lsched_world_open(NULL, &world, lsched_why()));
  int32_t rank = lsched_rank(world);
  lsched_must(lsched_split(world, rank / 2, rank, &row, lsched_why()));
  lsched_must(lsched_split(world, rank % 2, rank, &column, lsched_why()));
  int64_t mine = rank, sums[2];
  lsched_collective_desc desc = {sizeof desc, "allreduce", &mine, &sums[0], 1, .dtype = LSCHED_I64};
  desc.reduction = LSCHED_SUM;
  lsched_must(lsched_collective_create(row, &desc, &across, lsched_why()));
  desc.output = &sums[1];
  lsched_must(lsched_collective_create(column, &desc, &down, lsched_why()));
  lsched_must(lsched_run(across, LSCHED_FOREVER, lsched_why()));
  lsched_must(lsched_run(down, LSCHED_FOREVER, lsched_why()));
  printf("rank %d: row %d, column %d\n", rank, (int)sums[0], (int)sums[1]);
  return lsched_schedule_destroy(across, 0, NULL) || lsched_schedule_destroy(down, 0, NULL) ||
         lsched_world_close(row) || lsched_world_close(column) || lsched_world_close(world);
}
