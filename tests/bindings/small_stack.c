/* Makes the calls that need the largest stack, in a thread with a stack of KIB kibibytes. A launcher starts
 * `small_stack KIB`. docs/reference/c_api.md states the size that must be enough. A call that needs a larger stack
 * accesses the guard page. This access ends the process with SIGSEGV. */
#include <lsched.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { k_count = 100000 };
static const uint64_t k_limit_ns = UINT64_C(20000000000);
static double input[k_count], output[k_count];
static lsched_diagnostic why = {.struct_size = sizeof why};
static int line; /* line of the first failed call */

static int is_ok(lsched_status status, int where) {
  if (status != LSCHED_OK && line == 0) line = where;
  return line == 0;
}
#define CALL(call) is_ok(call, __LINE__)

static void run_round_and_destroy(lsched_schedule* schedule) {
  CALL(lsched_run(schedule, k_limit_ns, &why));
  CALL(lsched_schedule_destroy(schedule, k_limit_ns, &why));
}

static void run_dense(lsched_world* world, const char* collective, lsched_reduction reduction) {
  const lsched_collective_desc desc = {.struct_size = sizeof desc,
                                       .collective = collective,
                                       .input = input,
                                       .output = output,
                                       .count = 1000,
                                       .dtype = LSCHED_F64,
                                       .reduction = reduction};
  lsched_schedule* schedule = NULL;
  if (CALL(lsched_collective_create(world, &desc, &schedule, &why))) run_round_and_destroy(schedule);
}

static void run_sparse(lsched_world* world, const char* algorithm, lsched_dtype dtype) {
  const lsched_sparse_desc desc = {.struct_size = sizeof desc,
                                   .gradient = input,
                                   .update = output,
                                   .count = k_count,
                                   .dtype = dtype,
                                   .algorithm = algorithm,
                                   .k = 100};
  lsched_schedule* schedule = NULL;
  if (CALL(lsched_sparse_create(world, &desc, &schedule, &why))) run_round_and_destroy(schedule);
}

static void run_partial(lsched_world* world) {
  const lsched_partial_desc desc = {
      .struct_size = sizeof desc, .count = 1000, .dtype = LSCHED_F64, .reduction = LSCHED_SUM, .activation = "full"};
  lsched_schedule* schedule = NULL;
  lsched_ticket ticket;
  if (!CALL(lsched_partial_create(world, &desc, &schedule, &why))) return;
  CALL(lsched_offer(schedule, (const void* const[]){input}, &ticket));
  CALL(lsched_collect(ticket, (void* const[]){output}, k_limit_ns, NULL, &why));
  CALL(lsched_schedule_destroy(schedule, k_limit_ns, &why));
}

static void simulate_and_verify(void) {
  const lsched_verify_desc proved = {.struct_size = sizeof proved,
                                     .collective = "allreduce",
                                     .ranks = 8,
                                     .count = 1000,
                                     .dtype = LSCHED_F64,
                                     .reduction = LSCHED_SUM};
  const lsched_simulate_desc timed = {.struct_size = sizeof timed,
                                      .collective = "allreduce",
                                      .ranks = 64,
                                      .count = 1000,
                                      .dtype = LSCHED_F64,
                                      .reduction = LSCHED_SUM,
                                      .round = 1};
  lsched_verification proof = {.struct_size = sizeof proof};
  lsched_simulation time = {.struct_size = sizeof time};
  CALL(lsched_verify(&proved, &proof, NULL, 0, &why));
  CALL(lsched_simulate(&timed, &time, NULL, 0, &why));
}

static void* make_calls(void* nothing) {
  lsched_world* world = NULL;
  if (!CALL(lsched_world_open(NULL, &world, &why))) return nothing;
  run_dense(world, "allreduce", LSCHED_SUM);
  run_dense(world, "adasum", 0);
  run_sparse(world, "oktopk", LSCHED_F64);
  run_sparse(world, "oktopk", LSCHED_F32);
  run_sparse(world, "topka", LSCHED_F64);
  run_partial(world);
  simulate_and_verify();
  CALL(lsched_world_close(world));
  return nothing;
}

int main(int count, char** words) {
  const size_t bytes = (size_t)1024 * (size_t)(count == 2 ? atoi(words[1]) : 0);
  pthread_attr_t small;
  pthread_t thread;
  int i;
  for (i = 0; i < k_count; ++i) input[i] = (i * 7919) % 1009;
  if (pthread_attr_init(&small) != 0 || pthread_attr_setstacksize(&small, bytes) != 0 ||
      pthread_create(&thread, &small, make_calls, NULL) != 0 || pthread_join(thread, NULL) != 0) {
    fprintf(stderr, "no thread with a stack of %zu bytes\n", bytes);
    return 1;
  }
  if (line != 0) fprintf(stderr, "the call of line %d has failed: %s\n", line, why.text);
  return line != 0;
}
