// Barrier by dissemination with more than one peer a step (Hensgen, Finkel and Manber, 1988; radix k: Hoefler and
// others, 2006), made of signals only.
//
//   step j:  rank r signals r + i k^j and hears from r - i k^j (mod P),  i = 1 … k-1      j = 0 … ceil(log_k P) - 1
//
//   dissemination      k = 2
//   k_dissemination    k = 4, or `radix`: half the steps, with three signals each
//
// What a rank says in step j is "I and the k^j - 1 ranks before me have entered", so it may say so only after
// it has heard in *all* earlier steps, not merely in the one before: step j-1 covers the far part of that
// range, the earlier ones the near part. No bytes. Synchronising.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Appends a barrier: no rank's exit completes before every rank's `entry` has.
fragment add_barrier(builder& to, op_id entry, rank radix = 2);

extern const algorithm k_barrier_dissemination, k_barrier_k_dissemination;

}  // namespace lsched
