/* The program of a rank whose thread is cancelled by pthread_cancel. A launcher starts `cancelled_rank MODE`. The
 * library has no cancellation point. Therefore each call must return, and other threads can use the engine afterwards.
 * MODE is one of:
 * - pending: the cancellation is pending while the thread makes calls of each kind
 * - arithmetic: the cancellation is pending, and the user-defined reduction has a cancellation point
 * - waiting: the thread is cancelled while it waits for a late rank, and then another thread waits with a time limit
 *
 * If OVER_MPI is defined, the ranks open their world over MPI only. */
#include <lsched.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#ifdef OVER_MPI
#include <lsched_mpi.h>
#endif

static const uint64_t k_limit_ns = UINT64_C(20000000000);
static const uint64_t k_late_ns = UINT64_C(300000000);
static const uint64_t k_short_ns =
    UINT64_C(100000000); /* longer than the interval at which a waiter checks for dead ranks */

static atomic_int line;      /* line of the last call */
static atomic_int has_ended; /* 1 if all calls have returned the expected status */
static lsched_diagnostic why;

/* Makes a call. Returns from the function if the status is not `expected`. */
#define EXPECT(expected, call)                            \
  do {                                                    \
    atomic_store(&line, __LINE__);                        \
    why = (lsched_diagnostic){.struct_size = sizeof why}; \
    if ((call) != (expected)) return;                     \
  } while (0)

static uint64_t now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Waits for k_late_ns. Unlike nanosleep, this function has no cancellation point. */
static void be_late(void) {
  const uint64_t end = now_ns() + k_late_ns;
  while (now_ns() < end) sched_yield();
}

static lsched_status open_world(lsched_world** world) {
#ifdef OVER_MPI
  return lsched_world_open_mpi(MPI_COMM_WORLD, LSCHED_MPI_ONLY, NULL, world, &why);
#else
  return lsched_world_open(NULL, world, &why);
#endif
}

static int is_last(lsched_world* world) { return lsched_rank(world) == lsched_size(world) - 1; }

static void add_with_cancellation_point(const void* a, const void* b, void* c, uint64_t count, void* context) {
  uint64_t i;
  (void)context;
  pthread_testcancel();
  for (i = 0; i < count; ++i) ((double*)c)[i] = ((const double*)a)[i] + ((const double*)b)[i];
}

static lsched_status create_sum(lsched_world* world, const double* input, double* output, int has_own_arithmetic,
                                lsched_schedule** sum) {
  const lsched_user_op own = {.struct_size = sizeof own,
                              .combine = add_with_cancellation_point,
                              .dtype = LSCHED_F64,
                              .unit = 1,
                              .is_commutative = 1};
  const lsched_collective_desc desc = {.struct_size = sizeof desc,
                                       .collective = "allreduce",
                                       .input = input,
                                       .output = output,
                                       .count = 1,
                                       .dtype = LSCHED_F64,
                                       .reduction = has_own_arithmetic ? 0 : LSCHED_SUM,
                                       .user_op = has_own_arithmetic ? &own : NULL};
  return lsched_collective_create(world, &desc, sum, &why);
}

static void run_rounds(lsched_world* world) {
  const double input = 1;
  double output = 0;
  lsched_schedule *sum = NULL, *given_up = NULL;
  lsched_ticket ticket;
  EXPECT(LSCHED_OK, create_sum(world, &input, &output, 0, &sum));
  EXPECT(LSCHED_OK, create_sum(world, &input, &output, 0, &given_up));
  EXPECT(LSCHED_OK, lsched_run(sum, k_limit_ns, &why));
  if (is_last(world)) be_late();
  EXPECT(LSCHED_OK, lsched_start(sum, &ticket));
  if (!is_last(world)) EXPECT(LSCHED_ERR_TIMEOUT, lsched_wait(ticket, k_short_ns, &why));
  EXPECT(LSCHED_OK, lsched_wait(ticket, k_limit_ns, &why));
  EXPECT(LSCHED_OK, lsched_test(ticket));
  EXPECT(LSCHED_OK, lsched_schedule_destroy(sum, k_limit_ns, &why));
  EXPECT(LSCHED_OK, lsched_cancel(given_up, &why));
  EXPECT(LSCHED_OK, lsched_schedule_destroy(given_up, k_limit_ns, &why));
  atomic_store(&line, 0);
}

static void run_partial(lsched_world* world) {
  const double input = 1;
  double output = 0;
  const lsched_partial_desc desc = {
      .struct_size = sizeof desc, .count = 1, .dtype = LSCHED_F64, .reduction = LSCHED_SUM, .activation = "full"};
  lsched_schedule* partial = NULL;
  lsched_ticket ticket;
  EXPECT(LSCHED_OK, lsched_partial_create(world, &desc, &partial, &why));
  EXPECT(LSCHED_OK, lsched_offer(partial, (const void* const[]){&input}, &ticket));
  EXPECT(LSCHED_OK, lsched_collect(ticket, (void* const[]){&output}, k_limit_ns, NULL, &why));
  EXPECT(LSCHED_OK, lsched_flush(partial, (void* const[]){&output}, k_limit_ns, NULL, &why));
  EXPECT(LSCHED_OK, lsched_schedule_destroy(partial, k_limit_ns, &why));
  atomic_store(&line, 0);
}

static void send_message(lsched_world* world) {
  const int32_t self = lsched_rank(world), size = lsched_size(world);
  lsched_mailbox* box = NULL;
  lsched_message *sent = NULL, *received = NULL;
  double data = 1, room = 0;
  EXPECT(LSCHED_OK, lsched_mailbox_create(world, &box, &why));
  EXPECT(LSCHED_OK, lsched_receive_post(box, (self + size - 1) % size, 0, &room, sizeof room, &received));
  EXPECT(LSCHED_OK, lsched_send_post(box, (self + 1) % size, 0, &data, sizeof data, &sent));
  EXPECT(LSCHED_OK, lsched_message_wait(&sent, k_limit_ns, NULL, &why));
  EXPECT(LSCHED_OK, lsched_message_wait(&received, k_limit_ns, NULL, &why));
  EXPECT(LSCHED_OK, lsched_mailbox_destroy(box));
  atomic_store(&line, 0);
}

static void make_calls_of_each_kind(void) {
  lsched_world *world = NULL, *part = NULL;
  char text[512];
  (void)pthread_cancel(pthread_self());
  EXPECT(LSCHED_OK, open_world(&world));
  EXPECT(LSCHED_OK, lsched_world_describe(world, text, sizeof text));
  EXPECT(LSCHED_OK, lsched_trace_start(world, 1000));
  run_rounds(world);
  if (atomic_load(&line) == 0) run_partial(world);
  if (atomic_load(&line) == 0) send_message(world);
  if (atomic_load(&line) != 0) return;
  EXPECT(LSCHED_OK, lsched_diagnose(world, NULL, text, sizeof text, NULL));
  EXPECT(LSCHED_OK, lsched_trace_write(world, "/dev/null", &why));
  EXPECT(LSCHED_OK, lsched_split(world, 0, 0, &part, &why));
  EXPECT(LSCHED_OK, lsched_world_close(part));
  EXPECT(LSCHED_OK, lsched_world_close(world));
  atomic_store(&has_ended, 1);
}

static void run_own_arithmetic(void) {
  const double input = 1;
  double output = 0;
  lsched_world* world = NULL;
  lsched_schedule* sum = NULL;
  EXPECT(LSCHED_OK, open_world(&world));
  EXPECT(LSCHED_OK, create_sum(world, &input, &output, 1, &sum));
  (void)pthread_cancel(pthread_self());
  EXPECT(LSCHED_OK, lsched_run(sum, k_limit_ns, &why));
  atomic_store(&has_ended, output == lsched_size(world));
  EXPECT(LSCHED_OK, lsched_schedule_destroy(sum, k_limit_ns, &why));
  EXPECT(LSCHED_OK, lsched_world_close(world));
}

static void* make_calls(void* calls) {
  (*(void (**)(void))calls)();
  pthread_testcancel();
  return NULL;
}

/* Returns the exit status: 0 if the thread was cancelled only after all calls. */
static int judge(const char* mode, pthread_t thread) {
  void* result = NULL;
  (void)pthread_join(thread, &result);
  if (atomic_load(&has_ended) && result == PTHREAD_CANCELED) return 0;
  fprintf(stderr, "%s: the thread ended at the call of line %d: %s\n", mode, atomic_load(&line), why.text);
  return 1;
}

static void* wait_for_round(void* ticket) {
  lsched_diagnostic own = {.struct_size = sizeof own};
  if (lsched_wait(*(lsched_ticket*)ticket, LSCHED_FOREVER, &own) == LSCHED_OK) atomic_store(&has_ended, 1);
  for (;;) pthread_testcancel();
  return NULL;
}

static pthread_t waiter;

static void wait_beside_a_cancelled_thread(void) {
  const double input = 1;
  double output = 0;
  lsched_world* world = NULL;
  lsched_schedule* sum = NULL;
  static lsched_ticket ticket;
  EXPECT(LSCHED_OK, open_world(&world));
  EXPECT(LSCHED_OK, create_sum(world, &input, &output, 0, &sum));
  EXPECT(LSCHED_OK, lsched_run(sum, k_limit_ns, &why));
  if (is_last(world)) be_late();
  EXPECT(LSCHED_OK, lsched_start(sum, &ticket));
  (void)pthread_create(&waiter, NULL, wait_for_round, &ticket);
  (void)pthread_cancel(waiter);
  if (!is_last(world)) EXPECT(LSCHED_ERR_TIMEOUT, lsched_wait(ticket, k_short_ns, &why));
  EXPECT(LSCHED_OK, lsched_wait(ticket, k_limit_ns, &why));
  while (!atomic_load(&has_ended)) sched_yield(); /* ends at the latest at the time limit of the launcher */
  EXPECT(LSCHED_OK, lsched_schedule_destroy(sum, k_limit_ns, &why));
  EXPECT(LSCHED_OK, lsched_world_close(world));
}

static int run_mode(const char* mode) {
  void (*calls)(void) = strcmp(mode, "pending") == 0 ? make_calls_of_each_kind : run_own_arithmetic;
  pthread_t thread;
  if (strcmp(mode, "waiting") == 0) {
    wait_beside_a_cancelled_thread();
    return judge(mode, waiter);
  }
  (void)pthread_create(&thread, NULL, make_calls, &calls);
  return judge(mode, thread);
}

int main(int count, char** words) {
  int answer;
#ifdef OVER_MPI
  int level = 0;
  (void)MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &level);
#endif
  answer = run_mode(count == 2 ? words[1] : "");
#ifdef OVER_MPI
  (void)MPI_Finalize();
#endif
  return answer;
}
