/* Adds up the ranks' numbers.  lsched run -n 3 build/examples/allreduce */
#include <lsched.h>
#include <stdio.h>

int main(void) {
  lsched_runtime* world = NULL;
  lsched_schedule* sum = NULL;
  lsched_diagnostic why;
  lsched_diagnostic_init(&why);
  if (lsched_runtime_open(NULL, &world, &why) != LSCHED_OK) return fprintf(stderr, "%s\n", why.text), 1;

  int64_t mine = lsched_rank(world) + 1, total = 0;
  const lsched_allreduce_desc desc = {sizeof desc, &mine, &total, 1, LSCHED_I64, LSCHED_SUM, "auto"};
  if (lsched_allreduce_create(world, &desc, &sum, &why) != LSCHED_OK || /* once */
      lsched_run(sum, LSCHED_FOREVER, &why) != LSCHED_OK)               /* as often as you like */
    return fprintf(stderr, "%s\n", why.text), 1;

  const int64_t ranks = lsched_size(world);
  if (lsched_rank(world) == 0) printf("1 + ... + %d = %d\n", (int)ranks, (int)total);
  const int is_closed =
      lsched_schedule_destroy(sum, 0, NULL) == LSCHED_OK && lsched_runtime_close(world) == LSCHED_OK;
  return is_closed && total == ranks * (ranks + 1) / 2 ? 0 : 1;
}
