#include <lsched.h>
#include <stdio.h>

int main(void) {
  lsched_world* world;
  lsched_schedule* sum;
  lsched_diagnostic why = {.struct_size = sizeof why};
  if (lsched_world_open(NULL, &world, &why)) return puts(why.text), 1;
  double mine = 1.0 + lsched_rank(world), total = 0;
  lsched_allreduce_desc desc = {.struct_size = sizeof desc, .input = &mine, .output = &total, .count = 1,
                                .dtype = LSCHED_F64, .reduction = LSCHED_SUM};
  if (lsched_allreduce_create(world, &desc, &sum, &why)) return puts(why.text), 1;
  for (int round = 1; round <= 3; ++round, mine *= 10) {
    if (lsched_run(sum, LSCHED_FOREVER, &why)) return puts(why.text), 1;
    if (lsched_rank(world) == 0) printf("round %d: %g\n", round, total);
  }
  return lsched_schedule_destroy(sum, 0, NULL) || lsched_world_close(world);
}
