// Barrier by dissemination (Hensgen, Finkel and Manber, 1988), made of signals only.
//
//   step k:  rank r signals r + 2^k and hears from r - 2^k (mod P),  k = 0 … ceil(log2 P) - 1
//
// What a rank says in step k is "I and the 2^k - 1 ranks before me have entered", so it may say so only after
// it has heard in *all* earlier steps, not merely in the one before: step k-1 covers the far half of that
// range, the earlier ones the near half. P * ceil(log2 P) signals, no bytes. Synchronising.
#pragma once

#include "collectives/algorithm.h"

namespace lsched {

/// Appends a barrier: no rank's exit completes before every rank's `entry` has.
fragment add_barrier(builder& to, op_id entry);

/// The barrier by itself. Any P; P = 1 is a nop.
result<schedule_ptr> barrier_dissemination(world place, const shape& data = {}, const activation& starts = {});

extern const algorithm k_barrier_dissemination;

}  // namespace lsched
