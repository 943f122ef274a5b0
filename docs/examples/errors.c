/* Provokes one error for each status code. For example, `lsched run -n 3 ./errors timeout` provokes a timeout. k_cases
 * at the end of this file lists the other cases. Texts: docs/guides/troubleshooting.md and tests/docs/errors.md.
 *   cc errors.c $(pkg-config --cflags --libs libsched) -o errors */
#define _POSIX_C_SOURCE 200809L
#include <lsched_must.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const uint64_t k_second = 1000000000u;
static lsched_world* world;
static int32_t rank;
static float input[8], output[8];

static void combine(const void* lower, const void* higher, void* target, uint64_t count, void* context) {
  (void)higher, (void)context;
  memmove(target, lower, count * sizeof(float));
}

static lsched_schedule* sum_of(uint64_t count, const char* algorithm) {
  lsched_schedule* sum = NULL;
  lsched_collective_desc desc = {.struct_size = sizeof desc,
                                 .collective = "allreduce",
                                 .input = input,
                                 .output = output,
                                 .count = count,
                                 .dtype = LSCHED_F32,
                                 .reduction = LSCHED_SUM,
                                 .algorithm = algorithm};
  lsched_must(lsched_collective_create(world, &desc, &sum, lsched_why()));
  return sum;
}

static void argument(void) { sum_of(4, "rign"); }

static void overlap(void) {
  lsched_schedule* sum = NULL;
  lsched_collective_desc desc = {sizeof desc, "allreduce", input, input + 2, 4, .dtype = LSCHED_F32};
  desc.reduction = LSCHED_SUM;
  lsched_must(lsched_collective_create(world, &desc, &sum, lsched_why()));
}

static void message(void) {
  lsched_mailbox* box = NULL;
  lsched_message* one = NULL;
  lsched_must(lsched_mailbox_create(world, &box, lsched_why()));
  if (rank == 0) lsched_must(lsched_send_post(box, 1, 0, input, sizeof input, &one));
  if (rank == 1) lsched_must(lsched_receive_post(box, 0, 0, output, 8, &one));
  if (one != NULL) lsched_must(lsched_message_wait(&one, LSCHED_FOREVER, NULL, lsched_why()));
}

/* Builds a shift along the ring op by op, with a mistake. */
static void shift(uint64_t offset, int is_cyclic, int is_complete) {
  const int32_t ranks = lsched_size(world);
  lsched_builder* b = NULL;
  lsched_schedule* made = NULL;
  lsched_slot in, out;
  lsched_op sent, idle;
  lsched_must(lsched_builder_create(rank, ranks, "shift", &b));
  lsched_add_slot(b, LSCHED_INPUT, LSCHED_F32, 4, &in);
  lsched_add_slot(b, LSCHED_OUTPUT, LSCHED_F32, 4, &out);
  lsched_add_send(b, (rank + 1) % ranks, 7, (lsched_region){in, 0, 4}, &sent);
  if (is_complete || rank != 1)
    lsched_add_recv(b, (rank + ranks - 1) % ranks, 7, (lsched_region){out, offset, 4}, NULL);
  lsched_add_nop(b, &idle);
  lsched_add_dep(b, sent, idle);
  if (is_cyclic) lsched_add_dep(b, idle, sent);
  lsched_must(lsched_builder_commit(b, world, (const void*[]){input}, (void*[]){output}, &made, lsched_why()));
}
static void bounds(void) { shift(2, 0, 1); }
static void cycle(void) { shift(0, 1, 1); }
static void unmatched(void) { shift(0, 0, 0); }

static void state(void) {
  lsched_schedule* const sum = sum_of(4, NULL);
  lsched_ticket round;
  if (rank == 0) {
    lsched_must(lsched_start(sum, &round));
    lsched_must(lsched_run(sum, 0, lsched_why()));
  }
  sleep(1);
}

static void mismatch(void) { sum_of(rank == 1 ? 5 : 4, "ring"); }

static void order(void) {
  lsched_schedule* barrier = NULL;
  const lsched_collective_desc desc = {.struct_size = sizeof desc, .collective = "barrier"};
  if (rank == 1) lsched_must(lsched_collective_create(world, &desc, &barrier, lsched_why()));
  sum_of(4, "ring");
}

static void constraint(void) {
  lsched_schedule* made = NULL;
  const lsched_user_op first = {.struct_size = sizeof first, .combine = combine, .dtype = LSCHED_F32, .unit = 1};
  const lsched_collective_desc desc = {.struct_size = sizeof desc,
                                       .collective = "allreduce",
                                       .input = input,
                                       .output = output,
                                       .count = 4,
                                       .dtype = LSCHED_F32,
                                       .user_op = &first,
                                       .algorithm = "ring"};
  lsched_must(lsched_collective_create(world, &desc, &made, lsched_why()));
}

static void nomem(void) {
  void* memory = NULL;
  lsched_must(lsched_alloc(world, UINT64_C(1) << 50, &memory));
}

static int failing(const void* mine, void* all, uint64_t bytes, void* context) {
  (void)mine, (void)all, (void)bytes, (void)context;
  return 7;
}

static void transport(void) {
  lsched_world* other = NULL;
  lsched_must(lsched_world_open_with(rank, 3, failing, NULL, NULL, &other, lsched_why()));
}

static void peer(void) {
  lsched_schedule* const sum = sum_of(4, "ring");
  if (rank == 1) raise(SIGKILL);
  lsched_must(lsched_run(sum, LSCHED_FOREVER, lsched_why()));
}

static void timeout(void) {
  lsched_schedule* const sum = sum_of(4, "ring");
  if (rank == 1) sleep(2);
  lsched_must(lsched_run(sum, rank == 0 ? k_second / 2 : LSCHED_FOREVER, lsched_why())); /* rank 0 times out first */
}

static void stopped(void) {
  lsched_schedule* const sum = sum_of(4, "ring");
  if (rank == 1) raise(SIGSTOP);
  lsched_must(lsched_run(sum, rank == 2 ? k_second / 2 : LSCHED_FOREVER, lsched_why()));
}

static void absent(void) {
  if (rank == 1) sleep(4);
  sum_of(4, "ring");
}

static void busy(void) {
  sum_of(4, "ring");
  lsched_must(lsched_world_close(world));
}

static void version(void) {
  lsched_world* other = NULL;
  lsched_must(lsched_world_open_abi(LSCHED_ABI - 1, NULL, &other, lsched_why()));
}

static void not_finite(void) {
  lsched_schedule* made = NULL;
  if (rank == 1) memset(&input[3], 0xff, sizeof input[3]); /* NaN */
  const lsched_sparse_desc desc = {.struct_size = sizeof desc,
                                   .gradient = input,
                                   .update = output,
                                   .count = 8,
                                   .k = 2,
                                   .dtype = LSCHED_F32,
                                   .nans = LSCHED_NAN_ERROR};
  lsched_must(lsched_sparse_create(world, &desc, &made, lsched_why()));
  const lsched_status verdict = lsched_run(made, LSCHED_FOREVER, lsched_why());
  if (rank != 0) sleep(1); /* otherwise the end of this process would fail the round of a slower rank */
  lsched_must(verdict);
}

static void cancelled(void) {
  lsched_schedule* const sum = sum_of(4, "ring");
  if (rank == 1) lsched_must(lsched_cancel(sum, lsched_why()));
  if (rank != 2) sleep(1);
  lsched_must(lsched_run(sum, LSCHED_FOREVER, lsched_why()));
}

static void twice(void) {
  lsched_world* other = NULL;
  lsched_must(lsched_world_open(NULL, &other, lsched_why()));
}

static void rebind(void) {
  lsched_schedule* made = NULL;
  const lsched_partial_desc desc = {.struct_size = sizeof desc,
                                    .count = 4,
                                    .dtype = LSCHED_F32,
                                    .reduction = LSCHED_SUM,
                                    .activation = "solo",
                                    .lag = LSCHED_ACCUMULATE};
  lsched_must(lsched_partial_create(world, &desc, &made, lsched_why()));
  lsched_must(lsched_rebind(made, NULL, NULL));
}

static const struct {
  const char* name;
  void (*mistake)(void);
} k_cases[] = {{"argument", argument}, {"overlap", overlap},       {"message", message},       {"bounds", bounds},
               {"cycle", cycle},       {"unmatched", unmatched},   {"state", state},           {"mismatch", mismatch},
               {"order", order},       {"constraint", constraint}, {"nomem", nomem},           {"transport", transport},
               {"peer", peer},         {"timeout", timeout},       {"stopped", stopped},       {"absent", absent},
               {"busy", busy},         {"version", version},       {"not_finite", not_finite}, {"cancelled", cancelled},
               {"twice", twice},       {"rebind", rebind}};

int main(int count, char** words) {
  lsched_config config;
  lsched_config_init(&config);
  if (count == 2 && strcmp(words[1], "absent") == 0) config.commit_timeout_ns = 2 * k_second;
  lsched_must(lsched_world_open(&config, &world, lsched_why()));
  rank = lsched_rank(world);
  for (size_t i = 0; count == 2 && i < sizeof k_cases / sizeof k_cases[0]; ++i)
    if (strcmp(k_cases[i].name, words[1]) == 0) k_cases[i].mistake();
  return 0;
}
