// The parts of `lsched bench cost`. Each is collective, prints its table and its JSON lines.
#pragma once

#include "microbench/report.h"

namespace lsched::bench {

/// Rounds in which nobody is late, beside the synchronous allreduce.
void measure_balanced(team& ranks, const cost_options& options, reporter& out);

/// lsched_offer alone, beside one pass over as many bytes.
void measure_offers(team& ranks, const cost_options& options, reporter& out);

/// The engine's own processor time while applications compute, and what rounds of others take from them.
void measure_cpu(team& ranks, const cost_options& options, reporter& out);

}  // namespace lsched::bench
