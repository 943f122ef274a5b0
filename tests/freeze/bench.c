/* One benchmark for two versions of the library: the same source compiles against the public C header of both, so that
 * two builds can be compared while the code between them is rewritten. compare.py runs it for time, instructions.sh for
 * instructions; the folder goes when the rewriting is done.
 *
 *     cc -std=c11 -O2 bench.c -o bench $(pkg-config --cflags --libs libsched)
 *     lsched run -n P ./bench [--only WORD] [--seconds S]      a line per cell: name, P, ns, iterations
 *     ./bench --engine GRAPH ROUNDS                          GRAPH is one of graphs[]; rounds stand in counted_rounds()
 *
 * The time of a cell is the maximum over ranks, then the median over iterations (fig9: the mean over ranks, as in the
 * figure). A cell takes about S seconds (0.25), which says how many iterations there are. Cells whose name does not
 * contain WORD are left out. With one rank there are the graphs of the engine, as ns per op; with more, everything
 * else. Rank r is bound to the r-th core of the process, round robin, once the world is open. Every result is checked:
 * exit status 1 says that one was wrong, or that a call failed. */
#define _GNU_SOURCE
#include <lsched.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- What differs between the versions ----------------------------------------------------------------------- */

#if LSCHED_ABI == 1
typedef lsched_runtime world;
#define world_open lsched_runtime_open
#define world_open_threads lsched_runtime_open_threads
#define world_close lsched_runtime_close
#define world_stats lsched_runtime_stats
#define schedule_rebind lsched_rebind
#else
typedef lsched_world world;
#define world_open lsched_world_open
#define world_open_threads lsched_world_open_threads
#define world_close lsched_world_close
#define world_stats lsched_get_stats
#define schedule_rebind lsched_rebind
#endif

/* ---- Calls that must not fail ---------------------------------------------------------------------------------- */

static const uint64_t patience_ns = 60000000000u;

static void fail(const char* what, const char* why) {
  fprintf(stderr, "bench: %s: %s\n", what, why);
  exit(1);
}

static void expect(lsched_status status, const char* call, const lsched_diagnostic* why) {
  if (status != LSCHED_OK) fail(call, why != NULL && why->text[0] != '\0' ? why->text : lsched_status_text(status));
}

/* TRY for calls without a diagnostic, TELL for calls whose last argument is &why. */
#define TRY(call) expect((call), #call, NULL)
#define TELL(call)                \
  do {                            \
    lsched_diagnostic why;        \
    lsched_diagnostic_init(&why); \
    expect((call), #call, &why);  \
  } while (0)

static void* allocate(size_t bytes) {
  void* memory = NULL;
  if (posix_memalign(&memory, 64, bytes > 0 ? bytes : 1) != 0) fail("allocate", "no memory");
  memset(memory, 0, bytes);
  return memory;
}

static void destroy(lsched_schedule* schedule) { TELL(lsched_schedule_destroy(schedule, patience_ns, &why)); }

static void run(lsched_schedule* schedule) { TELL(lsched_run(schedule, patience_ns, &why)); }

/* ---- This rank ------------------------------------------------------------------------------------------------- */

static world* here;
static int ranks, my_rank;
static lsched_schedule* barrier;
static const char* only = "";
static double cell_seconds = 0.25;

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static lsched_schedule* make_allreduce(const void* input, void* output, uint64_t count, lsched_dtype dtype,
                                       lsched_reduction reduction) {
  const lsched_allreduce_desc desc = {.struct_size = sizeof desc,
                                      .input = input,
                                      .output = output,
                                      .count = count,
                                      .dtype = dtype,
                                      .reduction = reduction};
  lsched_schedule* schedule = NULL;
  TELL(lsched_allreduce_create(here, &desc, &schedule, &why));
  return schedule;
}

/* Elementwise over all ranks, in place. */
static void combine(double* values, size_t count, lsched_reduction reduction) {
  lsched_schedule* schedule = make_allreduce(values, values, count, LSCHED_F64, reduction);
  run(schedule);
  destroy(schedule);
}

static double slowest(double value) {
  combine(&value, 1, LSCHED_MAX);
  return value;
}

static void bind_to_core(void) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) fail("sched_getaffinity", "refused");
  int place = my_rank % CPU_COUNT(&allowed);
  for (size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || place-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) fail("sched_setaffinity", "refused");
    return;
  }
}

/* ---- Cells ----------------------------------------------------------------------------------------------------- */

enum { most_iterations = 4000 };

static int compare_doubles(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static bool is_wanted(const char* name) { return strstr(name, only) != NULL; }

/* Collective: `ns` has one value an iteration, of this rank. */
static void report(const char* name, double* ns, size_t iterations, lsched_reduction over_ranks, double divisor) {
  combine(ns, iterations, over_ranks);
  qsort(ns, iterations, sizeof *ns, compare_doubles);
  if (my_rank != 0) return;
  const double median = (ns[(iterations - 1) / 2] + ns[iterations / 2]) / 2;
  printf("%s %d %.2f %zu\n", name, ranks, median / divisor, iterations);
  fflush(stdout);
}

/* One iteration: returns the ns that count. */
typedef double (*iteration)(void* context);

/* Repeats until it has taken a tenth of a cell's time, on all ranks as often; then for a cell's time. */
static void measure(const char* name, iteration once, void* context, size_t least, double divisor) {
  static double ns[most_iterations];
  double each = 0;
  for (size_t count = 2; count <= most_iterations; count *= 4) {
    const double begin = now_ns();
    for (size_t i = 0; i < count; ++i) once(context);
    const double all = slowest(now_ns() - begin);
    each = all / (double)count;
    if (all > cell_seconds * 1e8) break;
  }
  size_t count = (size_t)fmin(cell_seconds * 1e9 / each, most_iterations);
  if (count < least) count = least;
  run(barrier);
  for (size_t i = 0; i < count; ++i) ns[i] = once(context);
  report(name, ns, count, LSCHED_MAX, divisor);
}

static const char* size_text(uint64_t bytes) {
  static char text[24];
  const bool is_mega = bytes >= 1 << 20, is_kilo = !is_mega && bytes >= 1 << 10;
  snprintf(text, sizeof text, "%llu%sB",
           (unsigned long long)(is_mega   ? bytes >> 20
                                : is_kilo ? bytes >> 10
                                          : bytes),
           is_mega   ? "M"
           : is_kilo ? "K"
                     : "");
  return text;
}

static double run_once(void* schedule) {
  const double begin = now_ns();
  run(schedule);
  return now_ns() - begin;
}

/* Two vectors of floats of which one is full of `value`. */
typedef struct buffers {
  uint64_t count;
  float *input, *output;
} buffers;

static buffers make_buffers(uint64_t bytes, float value) {
  buffers b = {.count = bytes / sizeof(float), .input = allocate(bytes), .output = allocate(bytes)};
  for (uint64_t i = 0; i < b.count; ++i) b.input[i] = value;
  return b;
}

static void free_buffers(buffers* b) {
  free(b->input);
  free(b->output);
}

static void expect_all(const char* name, const float* values, uint64_t count, float wanted) {
  for (uint64_t i = 0; i < count; ++i)
    if (values[i] != wanted) fail(name, "a result is wrong");
}

static float sum_of_ranks(void) { return (float)(ranks * (ranks + 1) / 2); } /* rank r gives r + 1 */

static void allreduce_cell(uint64_t bytes) {
  char name[48];
  snprintf(name, sizeof name, "allreduce.%s", size_text(bytes));
  if (!is_wanted(name)) return;
  buffers b = make_buffers(bytes, (float)(my_rank + 1));
  lsched_schedule* schedule = make_allreduce(b.input, b.output, b.count, LSCHED_F32, LSCHED_SUM);
  measure(name, run_once, schedule, 15, 1);
  expect_all(name, b.output, b.count, sum_of_ranks());
  destroy(schedule);
  free_buffers(&b);
}

static void adasum_cell(uint64_t bytes) {
  char name[48];
  snprintf(name, sizeof name, "adasum.%s", size_text(bytes));
  if (!is_wanted(name)) return;
  buffers b = make_buffers(bytes, 3);
  const lsched_collective_desc desc = {.struct_size = sizeof desc,
                                       .collective = "adasum",
                                       .input = b.input,
                                       .output = b.output,
                                       .count = b.count,
                                       .dtype = LSCHED_F32};
  lsched_schedule* schedule = NULL;
  TELL(lsched_collective_create(here, &desc, &schedule, &why));
  measure(name, run_once, schedule, 15, 1);
  for (uint64_t i = 0; i < b.count; ++i) /* equal vectors: their mean */
    if (!(fabsf(b.output[i] - 3) < 1e-4f)) fail(name, "a result is wrong");
  destroy(schedule);
  free_buffers(&b);
}

/* Each rank has the same k elements that are large, at places that are spread over the vector, and others of its own.
 * The first update is known: what the large ones are. */
static void sparse_cell(uint64_t bytes) {
  char name[48];
  snprintf(name, sizeof name, "sparse.%s", size_text(bytes));
  if (!is_wanted(name)) return;
  buffers b = make_buffers(bytes, 0);
  const uint64_t k = b.count / 100;
  uint64_t state = (uint64_t)my_rank + 1;
  for (uint64_t i = 0; i < b.count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    b.input[i] = (float)((double)(state >> 40) / (double)(1 << 24) - 0.5);
  }
  for (uint64_t i = 0; i < k; ++i) b.input[i * 100] = 8;
  const lsched_sparse_desc desc = {.struct_size = sizeof desc,
                                   .gradient = b.input,
                                   .update = b.output,
                                   .count = b.count,
                                   .k = k,
                                   .dtype = LSCHED_F32};
  lsched_schedule* schedule = NULL;
  TELL(lsched_sparse_create(here, &desc, &schedule, &why));
  run(schedule);
  for (uint64_t i = 0; i < b.count; ++i)
    if (b.output[i] != (i % 100 == 0 && i < k * 100 ? 8.0f : 0.0f)) fail(name, "a result is wrong");
  measure(name, run_once, schedule, 16, 1);
  destroy(schedule);
  free_buffers(&b);
}

static double commit_once(void* context) {
  const buffers* b = context;
  const double begin = now_ns();
  destroy(make_allreduce(b->input, b->output, b->count, LSCHED_F32, LSCHED_SUM));
  return now_ns() - begin;
}

static void commit_cell(void) {
  if (!is_wanted("commit")) return;
  buffers b = make_buffers(65536, 1);
  measure("commit", commit_once, &b, 16, 1);
  free_buffers(&b);
}

/* A schedule that goes to and fro between two pairs of buffers. */
typedef struct rebinding {
  lsched_schedule* schedule;
  buffers places[2];
  unsigned calls;
} rebinding;

static void rebind_next(rebinding* r) {
  const buffers* b = &r->places[++r->calls % 2];
  const void* inputs[] = {b->input};
  void* outputs[] = {b->output};
  TRY(schedule_rebind(r->schedule, inputs, outputs));
}

enum { rebinds_at_once = 64 };

static double rebind_once(void* context) {
  const double begin = now_ns();
  for (int i = 0; i < rebinds_at_once; ++i) rebind_next(context);
  return now_ns() - begin;
}

static double rebind_and_run_once(void* context) {
  rebinding* r = context;
  const double begin = now_ns();
  rebind_next(r);
  run(r->schedule);
  return now_ns() - begin;
}

static void rebind_cells(void) {
  if (!is_wanted("rebind.call") && !is_wanted("rebind.run")) return;
  rebinding r = {.places = {make_buffers(65536, (float)(my_rank + 1)), make_buffers(65536, (float)(my_rank + 1))}};
  const buffers* b = &r.places[0];
  r.schedule = make_allreduce(b->input, b->output, b->count, LSCHED_F32, LSCHED_SUM);
  if (is_wanted("rebind.call")) measure("rebind.call", rebind_once, &r, 16, rebinds_at_once);
  if (is_wanted("rebind.run")) {
    measure("rebind.run", rebind_and_run_once, &r, 16, 1);
    for (int i = 0; i < 2; ++i) expect_all("rebind.run", r.places[i].output, b->count, sum_of_ranks());
  }
  destroy(r.schedule);
  for (int i = 0; i < 2; ++i) free_buffers(&r.places[i]);
}

/* A partial allreduce of ones: a result is the number of its contributors. */
typedef struct partial {
  const char* name;
  lsched_schedule* schedule;
  buffers b;
} partial;

static partial make_partial(const char* name, const char* activation, uint64_t bytes) {
  partial p = {.name = name, .b = make_buffers(bytes, 1)};
  const lsched_partial_desc desc = {.struct_size = sizeof desc,
                                    .count = p.b.count,
                                    .dtype = LSCHED_F32,
                                    .reduction = LSCHED_SUM,
                                    .activation = activation,
                                    .seed = 1};
  TELL(lsched_partial_create(here, &desc, &p.schedule, &why));
  return p;
}

static void free_partial(partial* p) {
  destroy(p->schedule);
  free_buffers(&p->b);
}

/* Offers and collects; then what came too late is withdrawn, so that iterations do not depend on each other. */
static double partial_once(void* context) {
  partial* p = context;
  lsched_ticket ticket;
  lsched_report got = {.struct_size = sizeof got};
  run(barrier);
  const double begin = now_ns();
  TRY(lsched_offer(p->schedule, p->b.input, &ticket));
  TELL(lsched_collect(ticket, p->b.output, patience_ns, &got, &why));
  const double ns = now_ns() - begin;
  TRY(lsched_withdraw(p->schedule, NULL));
  run(barrier);
  if (got.has_result == 0 || got.last.contributors == 0) fail(p->name, "a round without a result");
  expect_all(p->name, p->b.output, p->b.count, (float)got.last.contributors);
  return ns;
}

static void partial_cell(const char* name, const char* activation) {
  if (!is_wanted(name)) return;
  partial p = make_partial(name, activation, 65536);
  measure(name, partial_once, &p, 16, 1);
  free_partial(&p);
}

static void sleep_ns(double ns) {
  const struct timespec t = {.tv_sec = (time_t)(ns / 1e9), .tv_nsec = (long)fmod(ns, 1e9)};
  nanosleep(&t, NULL);
}

/* Rank r comes r ms late. How many iterations there are depends on the ranks alone, and so do majority's draws. */
static void fig9_cell(const char* name, const char* activation) {
  enum { warm = 3, of_all_ranks = 400, least = 10, most = 200 };
  if (!is_wanted(name)) return;
  double ns[most];
  const int iterations = of_all_ranks / ranks > least ? of_all_ranks / ranks : least;
  partial p = make_partial(name, activation, 64);
  for (int i = -warm; i < iterations; ++i) {
    lsched_ticket ticket;
    lsched_report got = {.struct_size = sizeof got};
    run(barrier);
    if (my_rank > 0) sleep_ns(my_rank * 1e6);
    const double begin = now_ns();
    TRY(lsched_offer(p.schedule, p.b.input, &ticket));
    TELL(lsched_collect(ticket, p.b.output, patience_ns, &got, &why));
    if (i >= 0) ns[i] = now_ns() - begin;
    TRY(lsched_withdraw(p.schedule, NULL));
    run(barrier);
    if (got.has_result == 0) fail(name, "a round without a result");
    expect_all(name, p.b.output, p.b.count, (float)got.last.contributors);
  }
  report(name, ns, (size_t)iterations, LSCHED_SUM, ranks);
  free_partial(&p);
}

/* ---- Graphs of the engine: one rank, no messages ---------------------------------------------------------------- */

enum { ops = 1024 };

/* 1024 ops, put together by hand. */
typedef struct graph {
  const char* name;
  bool is_chain;    /* 0 -> 1 -> ... -> 1023; else a fan: 0 -> {1 ... 1022} -> 1023 */
  bool is_counting; /* ops are sums of one element; else they do nothing */
} graph;

static const graph graphs[] = {{"engine.chain", true, false},
                               {"engine.fan", false, false},
                               {"engine.chain_sum", true, true},
                               {"engine.fan_sum", false, true}};
enum { graph_count = sizeof graphs / sizeof graphs[0] };

typedef struct program {
  const graph* g;
  lsched_schedule* schedule;
  float input[ops], output[ops];
} program;

static void add_op(lsched_builder* b, const graph* g, lsched_slot in, lsched_slot out, uint32_t i, lsched_op* op) {
  const lsched_region one = {in, i, 1}, first = {out, 0, 1}, own = {out, i, 1};
  if (!g->is_counting)
    lsched_add_nop(b, op); /* the builder keeps its first error for the commit */
  else if (!g->is_chain)
    lsched_add_reduce(b, LSCHED_SUM, one, one, own, op);
  else if (i == 0)
    lsched_add_copy(b, one, first, op);
  else
    lsched_add_reduce(b, LSCHED_SUM, one, first, first, op);
}

static void make_program(program* p, world* on, const graph* g) {
  lsched_builder* b = NULL;
  lsched_slot in = {0}, out = {0};
  lsched_op op[ops];
  p->g = g;
  for (int i = 0; i < ops; ++i) p->input[i] = 1;
  TRY(lsched_builder_create(on, "graph", &b));
  if (g->is_counting) {
    lsched_slot_input(b, LSCHED_F32, ops, &in);
    lsched_slot_output(b, LSCHED_F32, ops, &out);
  }
  for (uint32_t i = 0; i < ops; ++i) add_op(b, g, in, out, i, &op[i]);
  for (int i = 1; i < ops; ++i) {
    if (g->is_chain) {
      lsched_add_dep(b, op[i - 1], op[i]);
    } else if (i < ops - 1) {
      lsched_add_dep(b, op[0], op[i]);
      lsched_add_dep(b, op[i], op[ops - 1]);
    }
  }
  const void* inputs[] = {p->input};
  void* outputs[] = {p->output};
  TELL(lsched_builder_commit(b, inputs, outputs, &p->schedule, &why));
}

static void check_program(const program* p) {
  if (p->g->is_counting && p->g->is_chain) expect_all(p->g->name, p->output, 1, ops);
  if (p->g->is_counting && !p->g->is_chain) expect_all(p->g->name, p->output, ops, 2);
}

static uint64_t ops_fired(world* on) {
  lsched_stats stats = {.struct_size = sizeof stats};
  TRY(world_stats(on, &stats));
  return stats.ops;
}

static void graph_cell(const graph* g) {
  if (!is_wanted(g->name)) return;
  program p;
  make_program(&p, here, g);
  const uint64_t before = ops_fired(here);
  run(p.schedule);
  if (ops_fired(here) - before != ops) fail(g->name, "not every op has fired");
  measure(g->name, run_once, p.schedule, 100, ops);
  check_program(&p);
  destroy(p.schedule);
}

/* ---- Rounds whose instructions are counted ---------------------------------------------------------------------- */

/* Eight ranks in this process that one thread serves in turns: what messages take is inside. */
enum { crowd_size = 8 };
static const char crowd_name[] = "allreduce.8ranks";

typedef struct member {
  world* on;
  float input, output;
  lsched_schedule* schedule;
} member;

static void* commit_member(void* context) {
  member* m = context;
  const lsched_allreduce_desc desc = {.struct_size = sizeof desc,
                                      .input = &m->input,
                                      .output = &m->output,
                                      .count = 1,
                                      .dtype = LSCHED_F32,
                                      .reduction = LSCHED_SUM,
                                      .algorithm = "recursive_doubling"};
  TELL(lsched_allreduce_create(m->on, &desc, &m->schedule, &why));
  return NULL;
}

static void crowd_round(member* crowd) {
  lsched_ticket ticket[crowd_size];
  for (int r = 0; r < crowd_size; ++r) TRY(lsched_start(crowd[r].schedule, &ticket[r]));
  for (int r = 0; r < crowd_size;) {
    const lsched_status status = lsched_test(ticket[r]);
    if (status == LSCHED_OK)
      ++r;
    else if (status != LSCHED_PENDING)
      fail(crowd_name, lsched_status_text(status));
    else
      for (int other = 0; other < crowd_size; ++other) TRY(lsched_progress(crowd[other].on, NULL));
  }
}

/* The counting program looks for this name: only what is called from here counts. */
void counted_rounds(lsched_schedule* schedule, member* crowd, int rounds);
__attribute__((noinline)) void counted_rounds(lsched_schedule* schedule, member* crowd, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    if (crowd != NULL)
      crowd_round(crowd);
    else
      TRY(lsched_run(schedule, patience_ns, NULL));
  }
}

enum { warm_rounds = 10 };

static void count_crowd(const lsched_config* config, int rounds) {
  world* on[crowd_size];
  member crowd[crowd_size];
  pthread_t threads[crowd_size]; /* a create waits for the other ranks */
  TELL(world_open_threads(crowd_size, config, on, &why));
  for (int r = 0; r < crowd_size; ++r) {
    crowd[r] = (member){.on = on[r], .input = 1};
    if (pthread_create(&threads[r], NULL, commit_member, &crowd[r]) != 0) fail(crowd_name, "no thread");
  }
  for (int r = 0; r < crowd_size; ++r) pthread_join(threads[r], NULL);
  for (int i = 0; i < warm_rounds; ++i) crowd_round(crowd);
  counted_rounds(NULL, crowd, rounds);
  for (int r = 0; r < crowd_size; ++r) {
    expect_all(crowd_name, &crowd[r].output, 1, crowd_size);
    destroy(crowd[r].schedule);
  }
  for (int r = 0; r < crowd_size; ++r) TRY(world_close(on[r]));
}

static void count_graph(const graph* g, const lsched_config* config, int rounds) {
  world* on = NULL;
  program p;
  TELL(world_open_threads(1, config, &on, &why));
  make_program(&p, on, g);
  for (int i = 0; i < warm_rounds; ++i) run(p.schedule);
  const uint64_t before = ops_fired(on);
  counted_rounds(p.schedule, NULL, rounds);
  if (ops_fired(on) - before != (uint64_t)rounds * ops) fail(g->name, "not every op has fired");
  check_program(&p);
  destroy(p.schedule);
  TRY(world_close(on));
}

/* Prints what the counted instructions are to be divided by: ops of a graph, rounds of each rank of the crowd. One
 * thread does everything, so that the same build has the same count again. */
static int count_engine(const char* name, int rounds) {
  lsched_config config;
  lsched_config_init(&config);
  config.progress = LSCHED_PROGRESS_CALLER;
  config.lane = LSCHED_LANE_INLINE;
  config.region_bytes = (uint64_t)1 << 28; /* eight of them have room where address space is short */
  int divisor = 0;
  if (strcmp(name, crowd_name) == 0) {
    count_crowd(&config, rounds);
    divisor = rounds * crowd_size;
  }
  for (int i = 0; i < graph_count; ++i) {
    if (strcmp(name, graphs[i].name) != 0) continue;
    count_graph(&graphs[i], &config, rounds);
    divisor = rounds * ops;
  }
  if (divisor <= 0) fail(name, "no such graph, or no rounds");
  printf("divisor %d\n", divisor);
  return 0;
}

/* ---- Everything ------------------------------------------------------------------------------------------------ */

static void measure_world(void) {
  static const uint64_t sizes[] = {8, 64, 1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20, 16 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) allreduce_cell(sizes[i]);
  partial_cell("partial.solo", "solo");
  partial_cell("partial.majority", "majority");
  fig9_cell("fig9.solo", "solo");
  fig9_cell("fig9.majority", "majority");
  commit_cell();
  rebind_cells();
  adasum_cell(64 << 10);
  adasum_cell(1 << 20);
  sparse_cell(1 << 20);
}

int main(int argc, char** argv) {
  if (argc == 4 && strcmp(argv[1], "--engine") == 0) return count_engine(argv[2], atoi(argv[3]));
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 < argc && strcmp(argv[i], "--only") == 0)
      only = argv[i + 1];
    else if (i + 1 < argc && strcmp(argv[i], "--seconds") == 0 && atof(argv[i + 1]) > 0)
      cell_seconds = atof(argv[i + 1]);
    else
      fail(argv[i], "not known: [--only WORD] [--seconds S] or --engine GRAPH ROUNDS");
  }
  TELL(world_open(NULL, &here, &why));
  ranks = lsched_size(here);
  my_rank = lsched_rank(here);
  bind_to_core();
  TELL(lsched_barrier_create(here, &barrier, &why));
  if (ranks > 1) measure_world();
  for (int i = 0; ranks == 1 && i < graph_count; ++i) graph_cell(&graphs[i]);
  destroy(barrier);
  TRY(world_close(here));
  return 0;
}
