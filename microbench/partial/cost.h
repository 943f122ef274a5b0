// The parts of `lsched bench cost`. Each part is collective, and prints its table and JSON lines.
#pragma once

#include "microbench/report.h"

namespace lsched::bench {

/// Measures rounds without late ranks, compared with the synchronous allreduce.
void measure_balanced(team& ranks, const cost_options& options, reporter& out);

/// Measures lsched_offer alone, compared with one pass over the same number of bytes.
void measure_offers(team& ranks, const cost_options& options, reporter& out);

/// Measures the processor time of the engine while applications compute. Also measures by how much an application is
/// slowed down by rounds that other ranks start.
void measure_cpu(team& ranks, const cost_options& options, reporter& out);

}  // namespace lsched::bench
