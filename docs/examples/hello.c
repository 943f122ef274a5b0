/* Each rank contributes a number, and all ranks get the sum.  lsched run -n 3 build/examples/hello */
#include <lsched_must.h>

int main(void) {
  lsched_world* world;
  lsched_schedule* sum;
  lsched_must(lsched_world_open(NULL, &world, lsched_why()));
  double mine = 1.0 + lsched_rank(world), total;
  lsched_collective_desc desc = {sizeof desc, "allreduce", &mine, &total, 1, .dtype = LSCHED_F64};
  desc.reduction = LSCHED_SUM;
  lsched_must(lsched_collective_create(world, &desc, &sum, lsched_why()));
  lsched_must(lsched_run(sum, LSCHED_FOREVER, lsched_why()));
  printf("rank %d of %d: the sum is %g\n", lsched_rank(world), lsched_size(world), total);
  return lsched_schedule_destroy(sum, 0, NULL) || lsched_world_close(world);
}
