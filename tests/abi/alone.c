/* A program that links only libsched. Checks that no MPI library is loaded, that libsched installs no signal handler
 * and changes no disposition of a signal, and that SIGHUP ends the program. */
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lsched.h"

enum { k_signals = 65 };
static void (*disposition[k_signals])(int);

static int count_mpi(struct dl_phdr_info* library, size_t bytes, void* count) {
  (void)bytes;
  const char* const slash = strrchr(library->dlpi_name, '/');
  if (slash == NULL || strstr(slash, "mpi") == NULL) return 0;
  fprintf(stderr, "%s is loaded\n", library->dlpi_name);
  ++*(int*)count;
  return 0;
}

/* The first call (`is_first`) returns the number of signals that have a handler, and records all dispositions. The
 * second call returns the number of signals whose disposition has changed since the first call. */
static int count_changes(int is_first) {
  int count = 0;
  for (int number = 1; number < k_signals; ++number) {
    struct sigaction now;
    if (sigaction(number, NULL, &now) != 0) continue; /* the C library reserves this signal */
    const int is_taken = now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN;
    const int is_fault = is_first ? is_taken : now.sa_handler != disposition[number];
    disposition[number] = now.sa_handler;
    if (!is_fault) continue;
    fprintf(stderr, "signal %d is taken %s\n", number, is_first ? "when the library is loaded" : "by the world");
    ++count;
  }
  return count;
}

static int use_library(void) {
  lsched_world* world;
  lsched_schedule* sum;
  lsched_diagnostic why = {.struct_size = sizeof why};
  if (lsched_world_open(NULL, &world, &why) != LSCHED_OK) return puts(why.text), 1;
  double mine = 3, total = 0;
  lsched_collective_desc desc = {.struct_size = sizeof desc,
                                 .collective = "allreduce",
                                 .input = &mine,
                                 .output = &total,
                                 .count = 1,
                                 .dtype = LSCHED_F64,
                                 .reduction = LSCHED_SUM};
  if (lsched_collective_create(world, &desc, &sum, &why) != LSCHED_OK) return puts(why.text), 1;
  const int failed = lsched_run(sum, UINT64_C(20000000000), &why) != LSCHED_OK || total < 3 || total > 3;
  return lsched_schedule_destroy(sum, 0, NULL) != LSCHED_OK || lsched_world_close(world) != LSCHED_OK || failed;
}

static int is_ended_by_hangup(void) {
  if (disposition[SIGHUP] == SIG_IGN) signal(SIGHUP, SIG_DFL); /* nohup starts programs with SIGHUP ignored */
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGHUP);
    _exit(0);
  }
  int end = 0;
  if (waitpid(child, &end, 0) == child && WIFSIGNALED(end) && WTERMSIG(end) == SIGHUP) return 1;
  fputs("SIGHUP does not end the program\n", stderr);
  return 0;
}

int main(void) {
  int faults = count_changes(1);
  faults += use_library();
  faults += count_changes(0);
  dl_iterate_phdr(count_mpi, &faults);
  return !is_ended_by_hangup() || faults != 0;
}
