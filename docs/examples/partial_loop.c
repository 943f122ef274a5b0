/* A loop with one slow rank, for which no other rank waits.  lsched run -n 3 build/examples/partial_loop
 *
 * In every step a rank computes a gradient (here: 1) and offers it. Then it collects the sum of the gradients that have
 * arrived since the last collect. A gradient of the slow rank joins the round that is open at the time of the offer. At
 * the end every rank has received every gradient exactly once. */
#include <lsched.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

enum { k_steps = 20, k_millisecond = 1000000 };
static const uint64_t k_timeout_ns = 20000000000u;

static void must(lsched_status status, const char* call, const lsched_diagnostic* why) {
  if (status == LSCHED_OK) return;
  fprintf(stderr, "%s: %s %s\n", call, lsched_status_name(status), why->text);
  exit(1);
}

static void compute_for(long ms) { thrd_sleep(&(struct timespec){.tv_nsec = ms * k_millisecond}, NULL); }

int main(void) {
  lsched_world* world = NULL;
  lsched_schedule* partial = NULL;
  lsched_diagnostic why = {.struct_size = sizeof why};
  must(lsched_world_open(NULL, &world, &why), "open", &why);
  const int32_t rank = lsched_rank(world);
  const int32_t ranks = lsched_size(world);
  const int is_slow = rank == ranks - 1 && ranks > 1;

  const lsched_partial_desc desc = {.struct_size = sizeof desc,
                                    .count = 1,
                                    .dtype = LSCHED_I64,
                                    .reduction = LSCHED_SUM,
                                    .activation = "solo",
                                    .lag = LSCHED_ACCUMULATE};
  must(lsched_partial_create(world, &desc, &partial, &why), "create", &why);

  int64_t gradient = 1, result = 0, total = 0;
  lsched_report report = {.struct_size = sizeof report};
  for (int step = 1; step <= k_steps; ++step) {
    lsched_ticket ticket;
    compute_for(is_slow ? 20 : 2);
    must(lsched_offer(partial, (const void*[]){&gradient}, &ticket), "offer", &why);
    must(lsched_collect(ticket, (void*[]){&result}, k_timeout_ns, &report, &why), "collect", &why);
    if (report.has_result) total += result;
    if (rank == 0)
      printf("step %2d: rounds %d to %d, %d of %d ranks in the last one, %d gradients, %d of them mine\n", step,
             (int)report.from + 1, (int)report.to, (int)report.last.contributors, (int)report.last.ranks,
             (int)report.offers, (int)report.mine);
  }

  /* These counts show the rank for which a synchronous loop would have waited. */
  lsched_partial_stats seen = {.struct_size = sizeof seen};
  must(lsched_schedule_stats(partial, &seen), "stats", &why);
  printf("rank %d: of %d rounds, %d in time, %d late, %d not called yet\n", (int)rank, (int)seen.rounds,
         (int)seen.in_time, (int)seen.late, (int)seen.uncalled);

  /* Pending offers are still sent after a rank leaves. The last round ends when every rank has left. */
  const lsched_ticket last = {partial, UINT64_MAX};
  must(lsched_leave(partial), "leave", &why);
  must(lsched_collect(last, (void*[]){&result}, k_timeout_ns, &report, &why), "collect", &why);
  if (report.has_result) total += result;
  must(lsched_schedule_destroy(partial, k_timeout_ns, &why), "destroy", &why);
  must(lsched_world_close(world), "close", &why);

  if (rank == 0) printf("%d gradients of %d ranks: all delivered\n", (int)total, (int)ranks);
  return total == (int64_t)ranks * k_steps ? 0 : 1;
}
