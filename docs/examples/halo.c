/* Smooths a ring of cells, 8 on each rank. In each step a rank sends its first and its last cell to the neighbours.
 * lsched run -n 3 build/examples/halo */
#include <lsched_must.h>

int main(void) {
  lsched_world* world;
  lsched_builder* b;
  lsched_schedule* halo;
  lsched_slot cells;
  lsched_must(lsched_world_open(NULL, &world, lsched_why()));
  int32_t rank = lsched_rank(world), ranks = lsched_size(world);
  int32_t left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
  double u[10] = {0, 8.0 * rank}, smooth[10]; /* u[0] and u[9] are copies of cells of the neighbours */
  lsched_must(lsched_builder_create(rank, ranks, "halo", &b));
  lsched_add_slot(b, LSCHED_OUTPUT, LSCHED_F64, 10, &cells);
  lsched_add_send(b, left, 0, (lsched_region){cells, 1, 1}, NULL);
  lsched_add_send(b, right, 1, (lsched_region){cells, 8, 1}, NULL);
  lsched_add_recv(b, right, 0, (lsched_region){cells, 9, 1}, NULL);
  lsched_add_recv(b, left, 1, (lsched_region){cells, 0, 1}, NULL);
  lsched_must(lsched_builder_commit(b, world, NULL, (void*[]){u}, &halo, lsched_why()));
  for (int step = 0; step < 2000; ++step) {
    lsched_must(lsched_run(halo, LSCHED_FOREVER, lsched_why()));
    for (int i = 1; i <= 8; ++i) smooth[i] = (u[i - 1] + u[i] + u[i + 1]) / 3;
    for (int i = 1; i <= 8; ++i) u[i] = smooth[i];
  }
  printf("rank %d: every cell is about %.6f\n", rank, u[1]);
  return lsched_schedule_destroy(halo, 0, NULL) || lsched_world_close(world);
}
