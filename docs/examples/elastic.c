/* Training that continues when ranks are killed.  lsched run -n 8 build/examples/elastic 100 3:20 6:40
 *
 * The first number is the number of steps. R:S makes rank R kill itself in its step S. Until the ranks flush, you may
 * also kill any other rank: `kill -9` with the process id that the rank prints. Each rank pulls the common weights
 * towards a point of its own. The survivors end with equal weights, in the middle of the points of survivors. */
#include <lsched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum { k_dimensions = 4, k_step_ms = 20, k_millisecond = 1000000 };
static const uint64_t k_timeout_ns = 20000000000u;

static lsched_diagnostic why = {.struct_size = sizeof why};

static void must(lsched_status status, const char* call) {
  if (status == LSCHED_OK) return;
  fprintf(stderr, "%s: %s %s\n", call, lsched_status_name(status), why.text);
  exit(1);
}

typedef struct {
  lsched_world* world;
  lsched_schedule* exchange;
} training;

/* Handles the status of a call. If the call failed because a rank died, continues with the survivors and returns 1:
 * the caller must repeat the call. */
static int has_gone_on(training* it, lsched_status status, const char* call) {
  if (status != LSCHED_ERR_PEER) return must(status, call), 0;
  lsched_world* survivors = NULL;
  do { /* repeated if another rank dies meanwhile */
    must(lsched_shrink(it->world, k_timeout_ns, &survivors, &why), "shrink");
    status = lsched_carry(it->exchange, survivors, &why);
    must(lsched_world_close(status == LSCHED_OK ? it->world : survivors), "close");
  } while (status == LSCHED_ERR_PEER);
  must(status, "carry");
  it->world = survivors;
  if (lsched_rank(it->world) == 0) printf("%s: a rank is gone, %d ranks continue\n", call, (int)lsched_size(it->world));
  return 1;
}

static void descend(double* weights, const double* gradients, uint64_t offers) {
  for (int d = 0; offers > 0 && d < k_dimensions; ++d) weights[d] -= 0.1 * gradients[d];
}

static double distance(const double* weights, double point) {
  double sum = 0;
  for (int d = 0; d < k_dimensions; ++d) sum += (weights[d] - point) * (weights[d] - point);
  return sum;
}

static int steps_of(int argc, char** argv, int rank, int* last_step) {
  int steps = 1000;
  for (int i = 1; i < argc; ++i) {
    int number = 0, step = 0;
    const int read = sscanf(argv[i], "%d:%d", &number, &step);
    if (read == 1) steps = number;
    if (read == 2 && number == rank) *last_step = step;
  }
  return steps;
}

int main(int argc, char** argv) {
  training it = {NULL, NULL};
  must(lsched_world_open(NULL, &it.world, &why), "open");
  int last_step = 0;
  const int rank = lsched_rank(it.world), steps = steps_of(argc, argv, rank, &last_step);
  printf("rank %d is process %d\n", rank, (int)getpid());
  fflush(stdout);

  const lsched_partial_desc desc = {.struct_size = sizeof desc,
                                    .count = k_dimensions,
                                    .dtype = LSCHED_F64,
                                    .reduction = LSCHED_SUM,
                                    .activation = "majority",
                                    .lag = LSCHED_ACCUMULATE,
                                    .divisor = LSCHED_DIVIDE_BY_RANKS};
  must(lsched_partial_create(it.world, &desc, &it.exchange, &why), "create");

  double weights[k_dimensions] = {0}, gradient[k_dimensions], sum[k_dimensions];
  lsched_report report = {.struct_size = sizeof report};
  lsched_ticket ticket;
  for (int step = 1; step <= steps; ++step) {
    thrd_sleep(&(struct timespec){.tv_nsec = k_step_ms * k_millisecond}, NULL); /* the forward and backward pass */
    if (step == last_step) raise(SIGKILL);
    for (int d = 0; d < k_dimensions; ++d) gradient[d] = weights[d] - rank;
    while (has_gone_on(&it, lsched_offer(it.exchange, (const void*[]){gradient}, &ticket), "offer")) continue;
    while (has_gone_on(&it, lsched_collect(ticket, (void*[]){sum}, k_timeout_ns, &report, &why), "collect")) continue;
    if (report.has_result) descend(weights, sum, report.offers);
    if (lsched_rank(it.world) == 0 && step % 10 == 0)
      printf("step %d: %d ranks, distance to the point of rank %d: %.2f\n", step, (int)lsched_size(it.world), rank,
             distance(weights, rank)),
          fflush(stdout);
  }
  while (has_gone_on(&it, lsched_flush(it.exchange, (void*[]){sum}, k_timeout_ns, &report, &why), "flush")) continue;
  if (report.has_result) descend(weights, sum, report.offers);

  /* All ranks have applied the same contributions, possibly in different steps. */
  double least = 0, most = 0;
  const lsched_collective_desc lowest = {.struct_size = sizeof lowest,
                                         .collective = "allreduce",
                                         .input = weights,
                                         .output = &least,
                                         .count = 1,
                                         .dtype = LSCHED_F64,
                                         .reduction = LSCHED_MIN};
  const lsched_collective_desc highest = {.struct_size = sizeof highest,
                                          .collective = "allreduce",
                                          .input = weights,
                                          .output = &most,
                                          .count = 1,
                                          .dtype = LSCHED_F64,
                                          .reduction = LSCHED_MAX};
  lsched_schedule *min = NULL, *max = NULL;
  must(lsched_collective_create(it.world, &lowest, &min, &why), "create min");
  must(lsched_collective_create(it.world, &highest, &max, &why), "create max");
  must(lsched_run(min, k_timeout_ns, &why), "min");
  must(lsched_run(max, k_timeout_ns, &why), "max");
  if (lsched_rank(it.world) == 0)
    printf("%d ranks end with weights that are %.0e apart\n", (int)lsched_size(it.world), most - least);
  must(lsched_schedule_destroy(min, k_timeout_ns, &why), "destroy min");
  must(lsched_schedule_destroy(max, k_timeout_ns, &why), "destroy max");
  must(lsched_schedule_destroy(it.exchange, k_timeout_ns, &why), "destroy");
  must(lsched_world_close(it.world), "close");
  return most - least < 1e-9 ? 0 : 1;
}
