// What an application does instead of communicating, as far as benchmarks need it: arithmetic in registers, so that
// whoever takes the core away from it makes it longer, and nobody else.
#pragma once

#include <cstdint>

#include "microbench/harness.h"

namespace lsched::bench {

/// Arithmetic whose result nobody could know before.
void compute(std::uint64_t steps);

/// Steps that take `us` on the slowest rank while all of them compute. Collective.
std::uint64_t steps_for(team& ranks, double us);

}  // namespace lsched::bench
