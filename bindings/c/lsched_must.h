/** @file
 * For programs that end when a call fails: each call is wrapped in lsched_must, and its diagnostic is lsched_why().
 *
 *     lsched_must(lsched_world_open(NULL, &world, lsched_why()));
 *
 * Both are functions of the program, not of the library, which prints nothing and ends nothing. C11, also valid C++11;
 * C++ programs that throw have lsched::must of lsched.hpp. Brings <lsched.h>, <stdio.h> and <stdlib.h> along. */
#ifndef LSCHED_MUST_H
#define LSCHED_MUST_H

#include <stdio.h>
#include <stdlib.h>

#include "lsched.h"

/* The calling thread's diagnostic, as the last call has left it. */
static inline lsched_diagnostic* lsched_why_kept(void) {
#ifdef __cplusplus
  static thread_local lsched_diagnostic why;
#else
  static _Thread_local lsched_diagnostic why;
#endif
  return &why;
}

/** The diagnostic of the calling thread, empty, to be passed to the next call.  Thread: any. Blocks: never.
 * Memory: the thread's, until it ends. */
static inline lsched_diagnostic* lsched_why(void) {
  lsched_diagnostic* const why = lsched_why_kept();
  lsched_diagnostic_init(why);
  return why;
}

/** Goes on if the status is LSCHED_OK or LSCHED_PENDING. Otherwise prints one line to standard error, such as
 *
 *     rank 2: LSCHED_ERR_TIMEOUT: allreduce/ring #0, round 1: unfired ops 1,3; waits for rank 1
 *
 * and ends the program by exit(1). The rank is the launcher's, if there is a launcher. The text is that of
 * lsched_why(), for a call without a diagnostic that of lsched_last_failure(), or else lsched_status_text() of the
 * status.
 * Thread: any. Blocks: never. */
static inline void lsched_must(lsched_status status) {
  static const char* const ranks[] = {"LSCHED_RUN_RANK",      "PMI_RANK", "PMIX_RANK",
                                      "OMPI_COMM_WORLD_RANK", "RANK",     "SLURM_PROCID"};
  const lsched_diagnostic* why = lsched_why_kept();
  const char* rank = NULL;
  size_t i;
  if (status >= 0) return;
  if (why->status != status) why = lsched_last_failure();
  for (i = 0; rank == NULL && i < sizeof ranks / sizeof ranks[0]; ++i) rank = getenv(ranks[i]);
  fprintf(stderr, "%s%s%s%s: %s\n", rank ? "rank " : "", rank ? rank : "", rank ? ": " : "", lsched_status_name(status),
          why->status == status && why->text[0] ? why->text : lsched_status_text(status));
  exit(1);
}

#endif
