/* Tests lsched_must and lsched_why. The build compiles this file as C and, as must.cc, as C++. `must CASE` must fail
 * with the error of the case, and `must none` must succeed. */
#include <lsched_must.h>
#include <string.h>

int main(int count, char** words) {
  const char* const what = count == 2 ? words[1] : "";
  lsched_world* world = NULL;
  lsched_schedule* sum = NULL;
  lsched_collective_desc desc;
  memset(&desc, 0, sizeof desc);
  desc.struct_size = sizeof desc;
  desc.collective = "allreduce";
  lsched_must(lsched_world_open(NULL, &world, lsched_why()));
  if (strcmp(what, "text") == 0) lsched_must(lsched_collective_create(world, &desc, &sum, lsched_why()));
  if (strcmp(what, "bare") == 0) {
    const lsched_status refused = lsched_collective_create(world, &desc, &sum, lsched_why());
    lsched_must(refused == LSCHED_ERR_ARGUMENT ? LSCHED_ERR_STATE : LSCHED_OK); /* lsched_why() has ARGUMENT */
  }
  if (strcmp(what, "of") == 0) {
    lsched_ticket round;
    double one = 1;
    desc.input = desc.output = &one;
    desc.count = 1;
    desc.dtype = LSCHED_F64;
    desc.reduction = LSCHED_SUM;
    lsched_must(lsched_collective_create(world, &desc, &sum, lsched_why()));
    lsched_must(lsched_start(sum, &round));
    lsched_must(lsched_wait(round, LSCHED_FOREVER, lsched_why()));
    lsched_must(lsched_cancel(sum, lsched_why()));
    lsched_must(lsched_start(sum, &round));
  }
  lsched_must(LSCHED_PENDING);
  lsched_must(lsched_world_close(world));
  return puts("went on") < 0;
}
