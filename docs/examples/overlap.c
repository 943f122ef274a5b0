/* Sums the gradients of one layer while the next layer computes.  lsched run -n 3 build/examples/overlap */
#include <lsched_must.h>

static float gradients[4][1 << 16];

int main(void) {
  lsched_world* world;
  lsched_schedule* sums[4];
  lsched_ticket rounds[4];
  lsched_must(lsched_world_open(NULL, &world, lsched_why()));
  for (int layer = 0; layer < 4; ++layer) {
    float* const vector = gradients[layer];
    lsched_collective_desc desc = {sizeof desc, "allreduce", vector, vector, 1 << 16, .dtype = LSCHED_F32};
    desc.reduction = LSCHED_SUM;
    lsched_must(lsched_collective_create(world, &desc, &sums[layer], lsched_why()));
  }
  for (int step = 0; step < 10; ++step) {
    for (int layer = 3; layer >= 0; --layer) {
      for (int i = 0; i < 1 << 16; ++i) gradients[layer][i] = 1; /* backward */
      lsched_must(lsched_start(sums[layer], &rounds[layer]));
    }
    for (int layer = 0; layer < 4; ++layer) lsched_must(lsched_wait(rounds[layer], LSCHED_FOREVER, lsched_why()));
  }
  for (int layer = 0; layer < 4; ++layer) lsched_must(lsched_schedule_destroy(sums[layer], 0, lsched_why()));
  return gradients[0][0] != (float)lsched_size(world) || lsched_world_close(world);
}
