/* The program of a rank that starts other programs, which also use libsched. `lsched run` starts `starter_rank MODE`.
 * MODE is one of:
 * - child: opens a world and closes the world; prints the error if the open fails
 * - before: starts a child before the rank opens its world
 * - after: starts a child while the world is open
 * - forked: forks a process that opens a world
 * - plain: starts nothing
 * - shrink: rank 1 kills itself in the open world, and the others continue in a shrunk world
 *
 * In all modes but "child", the rank then runs a barrier. */
#include <lsched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { k_failed = 3 };
static const uint64_t k_limit_ns = UINT64_C(20000000000);

static int open_and_close(void) {
  lsched_world* world = NULL;
  lsched_diagnostic why = {.struct_size = sizeof why};
  if (lsched_world_open(NULL, &world, &why) != LSCHED_OK) {
    printf("%s: %s\n", lsched_status_name((lsched_status)why.status), why.text);
    return k_failed;
  }
  printf("a world of %d\n", (int)lsched_size(world));
  return lsched_world_close(world) == LSCHED_OK ? 0 : k_failed;
}

static void start_child(const char* self) {
  char command[512];
  snprintf(command, sizeof command, "%s child", self);
  if (system(command) < 0) exit(k_failed);
}

static void fork_child(void) {
  const pid_t child = fork();
  if (child == 0) {
    (void)open_and_close();
    fflush(stdout);
    _exit(0);
  }
  (void)waitpid(child, NULL, 0);
}

/* Waits for the death of rank 1, and then replaces the world by a world without rank 1. */
static lsched_status shrink(lsched_world** world, lsched_diagnostic* why) {
  lsched_world* survivors = NULL;
  lsched_schedule* barrier = NULL;
  const lsched_collective_desc desc = {.struct_size = sizeof desc, .collective = "barrier"};
  lsched_status answer = lsched_collective_create(*world, &desc, &barrier, why);
  if (answer == LSCHED_OK && lsched_rank(*world) == 1) raise(SIGKILL);
  if (answer == LSCHED_OK) answer = lsched_run(barrier, k_limit_ns, why);
  if (answer != LSCHED_ERR_PEER) return LSCHED_ERR_STATE;
  printf("%s\n", why->text);
  answer = lsched_shrink(*world, k_limit_ns, &survivors, why);
  if (answer != LSCHED_OK) return answer;
  (void)lsched_schedule_destroy(barrier, k_limit_ns, NULL);
  answer = lsched_world_close(*world);
  *world = survivors;
  printf("a world of %d continues\n", (int)lsched_size(survivors));
  fflush(stdout);
  return answer;
}

int main(int count, char** words) {
  const char* const mode = count == 2 ? words[1] : "";
  if (strcmp(mode, "child") == 0) return open_and_close();
  if (strcmp(mode, "before") == 0) start_child(words[0]);
  lsched_world* world = NULL;
  lsched_schedule* barrier = NULL;
  const lsched_collective_desc desc = {.struct_size = sizeof desc, .collective = "barrier"};
  lsched_diagnostic why = {.struct_size = sizeof why};
  lsched_status answer = lsched_world_open(NULL, &world, &why);
  if (answer == LSCHED_OK && strcmp(mode, "after") == 0) start_child(words[0]);
  if (answer == LSCHED_OK && strcmp(mode, "forked") == 0) fork_child();
  if (answer == LSCHED_OK && strcmp(mode, "shrink") == 0) answer = shrink(&world, &why);
  if (answer == LSCHED_OK) answer = lsched_collective_create(world, &desc, &barrier, &why);
  if (answer == LSCHED_OK) answer = lsched_run(barrier, k_limit_ns, &why);
  if (answer == LSCHED_OK) answer = lsched_schedule_destroy(barrier, k_limit_ns, &why);
  if (answer == LSCHED_OK) answer = lsched_world_close(world);
  if (answer != LSCHED_OK) fprintf(stderr, "%s: %s\n", lsched_status_name(answer), why.text);
  return answer == LSCHED_OK ? 0 : k_failed;
}
