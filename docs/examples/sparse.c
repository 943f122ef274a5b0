/* Training with only the largest elements of gradients: descent on a sum of squares. Each rank has its own terms of the
 * sum. Link with -lm;  lsched run -n 3 build/examples/sparse
 *
 * Rank r pulls each weight towards (r + 1) times the target of the weight. In a round each rank sends 32 of 256
 * elements. The other elements stay in the rank's residual, and are added to its next gradients. */
#include <lsched.h>
#include <math.h>
#include <stdio.h>

enum { k_count = 256, k_sent = 32, k_rounds = 500 };

static const float k_rate = 0.02f;

static float target_of(int i) { return (float)(i % 7 - 3); }

int main(void) {
  lsched_world* world = NULL;
  lsched_schedule* mean = NULL;
  lsched_diagnostic why = {.struct_size = sizeof why};
  if (lsched_world_open(NULL, &world, &why)) return fprintf(stderr, "%s\n", why.text), 1;
  const int32_t rank = lsched_rank(world), ranks = lsched_size(world);

  float weights[k_count] = {0}, gradient[k_count], update[k_count];
  const lsched_sparse_desc desc = {.struct_size = sizeof desc,
                                   .gradient = gradient,
                                   .update = update,
                                   .count = k_count,
                                   .k = k_sent,
                                   .dtype = LSCHED_F32,
                                   .algorithm = "oktopk",
                                   .scale = k_rate};
  if (lsched_sparse_create(world, &desc, &mean, &why)) return fprintf(stderr, "%s\n", why.text), 1;

  for (int round = 0; round < k_rounds; ++round) {
    for (int i = 0; i < k_count; ++i) gradient[i] = weights[i] - (float)(rank + 1) * target_of(i);
    if (lsched_run(mean, LSCHED_FOREVER, &why)) return fprintf(stderr, "%s\n", why.text), 1;
    for (int i = 0; i < k_count; ++i) weights[i] -= update[i];
  }

  /* The optimum for all ranks together is the mean of their targets. */
  const float scale = 0.5f * (float)(ranks + 1), largest = 3 * scale;
  float worst = 0;
  for (int i = 0; i < k_count; ++i) worst = fmaxf(worst, fabsf(weights[i] - scale * target_of(i)) / largest);
  if (rank == 0)
    printf("%d rounds, %d of %d elements: off by %.1f %%\n", k_rounds, k_sent, k_count, 100 * (double)worst);
  const int is_closed =
      lsched_schedule_destroy(mean, LSCHED_FOREVER, &why) == LSCHED_OK && lsched_world_close(world) == LSCHED_OK;
  return is_closed && worst < 0.1f ? 0 : 1;
}
