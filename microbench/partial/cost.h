// The parts of `lsched bench cost`. Each is collective, prints its table and its JSON lines, and answers how many
// results were wrong.
#pragma once

#include "microbench/benchmarks.h"
#include "microbench/harness.h"

namespace lsched::bench {

/// Rounds in which nobody is late, beside the synchronous allreduce.
double measure_balanced(team& ranks, const cost_options& options, reporter& out);

/// lsched_offer alone, beside one pass over as many bytes.
double measure_offers(team& ranks, const cost_options& options, reporter& out);

/// The engine's own processor time while applications compute, and what rounds of others take from them.
double measure_cpu(team& ranks, const cost_options& options, reporter& out);

/// The processor time of all ranks while they wait for the last one, which sleeps.
double measure_idle(team& ranks, const cost_options& options, reporter& out);

}  // namespace lsched::bench
