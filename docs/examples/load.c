/* Loads the scan of the file scan.sched, and runs it.
 * lsched run -n 3 build/examples/load docs/examples/scan.sched */
#include <lsched.h>
#include <stdio.h>

enum { k_most_bytes = 1 << 16 };

int main(int count, char** words) {
  static char text[k_most_bytes];
  FILE* file = count == 2 ? fopen(words[1], "rb") : NULL;
  if (file == NULL) return fprintf(stderr, "usage: lsched run -n 3 %s docs/examples/scan.sched\n", words[0]), 1;
  const size_t bytes = fread(text, 1, sizeof text, file);
  fclose(file);

  lsched_world* world = NULL;
  lsched_diagnostic why = {.struct_size = sizeof why};
  if (lsched_world_open(NULL, &world, &why) != LSCHED_OK) return fprintf(stderr, "%s\n", why.text), 1;
  const int32_t rank = lsched_rank(world);

  /* One pointer per input and output buffer of this rank's schedule. */
  int64_t input = 0, output = 0;
  const void* inputs[] = {&input};
  void* outputs[] = {&output};
  lsched_schedule* scan = NULL;
  if (lsched_schedule_load(world, text, bytes, inputs, outputs, &scan, &why) != LSCHED_OK)
    return fprintf(stderr, "%s: %s\n", words[1], why.text), 1;

  int is_right = 1;
  for (int64_t round = 1; round <= 3; ++round) {
    input = round * (rank + 1); /* in round 1, the inputs 1, 2, 3 have the scan 1, 3, 6 */
    if (lsched_run(scan, LSCHED_FOREVER, &why) != LSCHED_OK) return fprintf(stderr, "%s\n", why.text), 1;
    is_right = is_right && output == round * (rank + 1) * (rank + 2) / 2;
    if (rank == 2) printf("round %d: %d\n", (int)round, (int)output);
  }
  const int is_closed = lsched_schedule_destroy(scan, 0, &why) == LSCHED_OK && lsched_world_close(world) == LSCHED_OK;
  return is_closed && is_right ? 0 : 1;
}
