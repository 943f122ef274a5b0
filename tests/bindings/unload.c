/* Loads the library, runs reductions, and unloads the library, three times. The two ranks have worker threads (lanes of
 * oneTBB). After an unload, the worker threads of oneTBB still run, so their code must stay in memory.
 *
 * Run as `unload LIBRARY`. The exit status is 0 on success. */
#include <dlfcn.h>
#include <lsched.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { k_ranks = 2, k_count = 300000, k_rounds = 5 };
static const uint64_t k_limit_ns = UINT64_C(20000000000);

static void* library;

/* Loads a function pointer with dlsym, in the form that POSIX recommends. */
#define LOAD(name)           \
  __typeof__(name)* name##_; \
  *(void**)&name##_ = dlsym(library, #name)

static int complain(const char* about, const char* why) {
  fprintf(stderr, "unload: %s: %s\n", about, why);
  return 1;
}

static void* live(void* argument) {
  static char said_so;
  LOAD(lsched_collective_create);
  LOAD(lsched_run);
  LOAD(lsched_schedule_destroy);
  LOAD(lsched_world_close);
  lsched_world* const world = argument;
  lsched_diagnostic why = {.struct_size = sizeof why};
  double* const input = calloc(k_count, sizeof *input);
  double* const output = calloc(k_count, sizeof *output);
  lsched_collective_desc desc = {.struct_size = sizeof desc,
                                 .collective = "allreduce",
                                 .input = input,
                                 .output = output,
                                 .count = k_count,
                                 .dtype = LSCHED_F64,
                                 .reduction = LSCHED_SUM,
                                 .algorithm = "recursive_doubling"};
  lsched_schedule* sum;
  int failed = lsched_collective_create_(world, &desc, &sum, &why) != LSCHED_OK;
  for (int round = 0; round < k_rounds && !failed; ++round) failed = lsched_run_(sum, k_limit_ns, &why) != LSCHED_OK;
  failed = failed || lsched_schedule_destroy_(sum, k_limit_ns, &why) != LSCHED_OK;
  if (failed) complain("a rank", why.text);
  failed = failed || lsched_world_close_(world) != LSCHED_OK;
  free(input);
  free(output);
  return failed ? &said_so : NULL;
}

/* Loads the library, runs both ranks, and unloads the library. Returns 0 on success. */
static int use_library(const char* path) {
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return complain("dlopen", dlerror());
  LOAD(lsched_world_open_threads_abi);
  LOAD(lsched_world_describe);
  lsched_world* world[k_ranks];
  lsched_diagnostic why = {.struct_size = sizeof why};
  if (lsched_world_open_threads_abi_(LSCHED_ABI, k_ranks, NULL, world, &why) != LSCHED_OK)
    return complain("open", why.text);
  char text[400];
  lsched_world_describe_(world[0], text, sizeof text);
  if (strstr(text, "2 oneTBB workers") == NULL) return complain("there is no lane", text);
  pthread_t ranks[k_ranks];
  int failed = 0;
  for (int r = 0; r < k_ranks; ++r) pthread_create(&ranks[r], NULL, live, world[r]);
  for (int r = 0; r < k_ranks; ++r) {
    void* said;
    pthread_join(ranks[r], &said);
    failed = failed || said != NULL;
  }
  return dlclose(library) != 0 || failed;
}

int main(int count, char** words) {
  if (count != 2 || setenv("LSCHED_LANE", "tbb:2", 1) != 0) return 2;
  alarm(50);
  for (int times = 0; times < 3; ++times) {
    if (use_library(words[1]) != 0) return 1;
    const struct timespec nap = {.tv_nsec = 200000000}; /* meanwhile the workers wake up and find no work */
    nanosleep(&nap, NULL);
  }
  return 0;
}
