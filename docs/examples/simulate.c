/* Computes how long schedules take on a modelled machine: two algorithms of the library at two sizes, and a schedule
 * file. The program needs no ranks.
 * build/examples/simulate docs/examples/scan.sched */
#include <lsched.h>
#include <stdio.h>

enum { k_most_bytes = 1 << 16, k_most_ranks = 64 };

static int time_it(const char* name, const lsched_simulate_desc* desc) {
  lsched_simulation answer = {.struct_size = sizeof answer};
  uint64_t finish_ps[k_most_ranks] = {0};
  lsched_diagnostic why = {.struct_size = sizeof why};
  if (lsched_simulate(desc, &answer, finish_ps, k_most_ranks, &why) != LSCHED_OK)
    return fprintf(stderr, "%s: %s\n", name, why.text), 2;
  printf("%s, %d ranks: %d messages, rank 0 after %.3f us, the last after %.3f us\n", name, (int)answer.ranks,
         (int)answer.messages, (double)finish_ps[0] / 1e6, (double)answer.last_ps / 1e6);
  return 0;
}

int main(int count, char** words) {
  static char text[k_most_bytes];
  FILE* file = count == 2 ? fopen(words[1], "rb") : NULL;
  if (file == NULL) return fprintf(stderr, "usage: %s docs/examples/scan.sched\n", words[0]), 2;
  const size_t bytes = fread(text, 1, sizeof text, file);
  fclose(file);

  lsched_machine machine = LSCHED_DEFAULT_MACHINE;
  machine.L = 900, machine.o = 200, machine.g = 50, machine.G = 0.04; /* 25 GB/s */
  lsched_simulate_desc desc = {
      .struct_size = sizeof desc, .text = text, .bytes = bytes, .round = 1, .machine = &machine};
  if (time_it(words[1], &desc) != 0) return 2;

  const char* const algorithms[] = {"recursive_doubling", "ring"};
  const uint64_t counts[] = {2, 1 << 22};
  desc.text = NULL;
  desc.collective = "allreduce";
  desc.ranks = 16;
  desc.dtype = LSCHED_F32;
  desc.reduction = LSCHED_SUM;
  for (int c = 0; c < 2; ++c)
    for (int a = 0; a < 2; ++a) {
      desc.algorithm = algorithms[a];
      desc.count = counts[c];
      if (time_it(algorithms[a], &desc) != 0) return 2;
    }
  return 0;
}
