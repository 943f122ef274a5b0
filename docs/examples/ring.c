/* A schedule built op by op: a shift along the ring in both directions.  lsched run -n 3 build/examples/ring
 *
 *     send right ────────────────────┐
 *     send left  ────────────────────┤
 *     recv from left  ─┬─any─► copy ─┴─► the round ends
 *     recv from right ─┘
 *
 * The local work (here a copy) begins when the first of the two messages arrives. The second message does not start the
 * work again. */
#include <lsched.h>
#include <stdio.h>

enum { k_rightward, k_leftward };          /* tags */
enum { k_from_left, k_from_right, k_own }; /* indices in the output */

static lsched_schedule* make_ring(lsched_world* world, const int64_t* input, int64_t* output, lsched_diagnostic* why) {
  const int32_t rank = lsched_rank(world);
  const int32_t ranks = lsched_size(world);
  const int32_t right = (rank + 1) % ranks;
  const int32_t left = (rank + ranks - 1) % ranks;
  lsched_builder* b = NULL;
  lsched_schedule* ring = NULL;
  if (lsched_builder_create(rank, ranks, "ring", &b) != LSCHED_OK) return NULL;

  /* A builder keeps its first error until commit, so nothing needs to be checked in between. */
  lsched_slot in = {0}, out = {0};
  lsched_add_slot(b, LSCHED_INPUT, LSCHED_I64, 1, &in);
  lsched_add_slot(b, LSCHED_OUTPUT, LSCHED_I64, 3, &out);
  const lsched_region mine = {in, 0, 1};
  lsched_op from_left = {0}, from_right = {0}, work = {0};
  lsched_add_send(b, right, k_rightward, mine, NULL);
  lsched_add_send(b, left, k_leftward, mine, NULL);
  lsched_add_recv(b, left, k_rightward, (lsched_region){out, k_from_left, 1}, &from_left);
  lsched_add_recv(b, right, k_leftward, (lsched_region){out, k_from_right, 1}, &from_right);
  lsched_add_copy(b, mine, (lsched_region){out, k_own, 1}, &work);
  lsched_add_dep(b, from_left, work);
  lsched_add_dep(b, from_right, work);
  lsched_set_need(b, work, 1);

  const void* inputs[] = {input};
  void* outputs[] = {output};
  return lsched_builder_commit(b, world, inputs, outputs, &ring, why) == LSCHED_OK ? ring : NULL;
}

int main(void) {
  lsched_world* world = NULL;
  lsched_diagnostic why = {.struct_size = sizeof why};
  if (lsched_world_open(NULL, &world, &why) != LSCHED_OK) return fprintf(stderr, "%s\n", why.text), 1;
  const int32_t rank = lsched_rank(world);
  const int32_t ranks = lsched_size(world);
  if (ranks < 2) return fprintf(stderr, "a ring needs two ranks: lsched run -n 3 build/examples/ring\n"), 1;

  int64_t input = 0, output[3] = {0};
  lsched_schedule* ring = make_ring(world, &input, output, &why);
  if (ring == NULL) return fprintf(stderr, "%s\n", why.text), 1;

  int is_right = 1;
  for (int round = 1; round <= 3; ++round) {
    input = 100 * round + rank;
    if (lsched_run(ring, LSCHED_FOREVER, &why) != LSCHED_OK) return fprintf(stderr, "%s\n", why.text), 1;
    is_right = is_right && output[k_from_left] == 100 * round + (rank + ranks - 1) % ranks &&
               output[k_from_right] == 100 * round + (rank + 1) % ranks && output[k_own] == input;
    if (rank == 0) printf("round %d: left %d, right %d\n", round, (int)output[k_from_left], (int)output[k_from_right]);
  }
  const int is_closed = lsched_schedule_destroy(ring, 0, &why) == LSCHED_OK && lsched_world_close(world) == LSCHED_OK;
  return is_closed && is_right ? 0 : 1;
}
