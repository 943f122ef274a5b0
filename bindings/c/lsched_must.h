/** @file
 * Helpers for programs that end when a call fails. Wrap each call in lsched_must, and pass lsched_why() as its
 * diagnostic:
 *
 *     lsched_must(lsched_world_open(NULL, &world, lsched_why()));
 *
 * Both functions are compiled into the program. The library itself never ends a program. This header is C11, and also
 * valid C++11. C++ programs that throw exceptions use lsched::must of lsched.hpp. The header includes <lsched.h>,
 * <stdio.h>, <stdlib.h> and <string.h>. */
#ifndef LSCHED_MUST_H
#define LSCHED_MUST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lsched.h"

/* Returns the diagnostic of the calling thread, without initialising the diagnostic. */
static inline lsched_diagnostic* lsched_must_diagnostic(void) {
#ifdef __cplusplus
  static thread_local lsched_diagnostic why;
#else
  static _Thread_local lsched_diagnostic why;
#endif
  return &why;
}

/** Returns the diagnostic of the calling thread, initialised for the next call.
 * Thread: any. Blocks: never.
 * Memory: owned by the thread, valid until the thread ends. */
static inline lsched_diagnostic* lsched_why(void) {
  lsched_diagnostic* const why = lsched_must_diagnostic();
  memset(why, 0, sizeof *why);
  why->struct_size = sizeof *why;
  return why;
}

/** Returns if the status is LSCHED_OK or LSCHED_PENDING. Otherwise prints one line to standard error, such as
 *
 *     rank 2: LSCHED_ERR_TIMEOUT: allreduce/ring #0, round 1: ops not started: 1,3; waits for rank 1
 *
 * and ends the program by exit(1). The rank is from the environment variable of a launcher, and is omitted without a
 * launcher. The text is from lsched_why(). For a call without a diagnostic the text is from lsched_last_failure(), or
 * else from lsched_status_text().
 * Thread: any. Blocks: never. */
static inline void lsched_must(lsched_status status) {
  static const char* const ranks[] = {"LSCHED_RUN_RANK",      "PMI_RANK", "PMIX_RANK",
                                      "OMPI_COMM_WORLD_RANK", "RANK",     "SLURM_PROCID"};
  const lsched_diagnostic* why = lsched_must_diagnostic();
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
