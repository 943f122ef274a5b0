/* Each rank contributes a number, and all ranks get the sum.  lsched run -n 3 build/examples/hello */
#include <lsched_must.h>

int main(void) {
  lsched_world* world;
  lsched_schedule* sum;
  lsched_must(lsched_world_open(NULL, &world, lsched_why()));
  double mine = 1.0 + lsched_rank(world), total;
  lsched_allreduce_desc desc = {sizeof desc, &mine, &total, 1, LSCHED_F64, .reduction = LSCHED_SUM};
  lsched_must(lsched_allreduce_create(world, &desc, &sum, lsched_why()));
  lsched_must(lsched_run(sum, LSCHED_FOREVER, lsched_why()));
  printf("rank %d of %d: the sum is %g\n", lsched_rank(world), lsched_size(world), total);
  return lsched_schedule_destroy(sum, 0, NULL) || lsched_world_close(world);
}
