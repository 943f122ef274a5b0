/* A broadcast built op by op, in 16 parts from rank to rank. A rank forwards a part while the next parts arrive.
 * lsched run -n 3 build/examples/pipeline */
#include <lsched_must.h>

int main(void) {
  lsched_world* world;
  lsched_builder* b;
  lsched_schedule* bcast;
  lsched_region part = {.count = 1 << 10};
  lsched_must(lsched_world_open(NULL, &world, lsched_why()));
  int32_t rank = lsched_rank(world), last = lsched_size(world) - 1;
  double data[16 << 10] = {0, [16383] = rank == 0};
  lsched_must(lsched_builder_create(rank, last + 1, "pipeline", &b));
  lsched_add_slot(b, LSCHED_OUTPUT, LSCHED_F64, 16 << 10, &part.slot);
  for (lsched_op come = {0}, go = {0}; part.offset < 16 << 10; part.offset += part.count) {
    if (rank > 0) lsched_add_recv(b, rank - 1, part.offset, part, &come);
    if (rank < last) lsched_add_send(b, rank + 1, part.offset, part, &go);
    if (rank > 0 && rank < last) lsched_add_dep(b, come, go);
  }
  lsched_must(lsched_builder_commit(b, world, NULL, (void*[]){data}, &bcast, lsched_why()));
  lsched_must(lsched_run(bcast, LSCHED_FOREVER, lsched_why()));
  return data[16383] != 1 || lsched_schedule_destroy(bcast, 0, NULL) || lsched_world_close(world);
}
