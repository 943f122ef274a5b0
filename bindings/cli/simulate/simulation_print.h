// What `lsched simulate` says about a run.
#pragma once

#include "bindings/cli/simulate/simulated_run.h"

namespace lsched::cli {

/// For people, or two lines of JSON, of which the second is the summary that others read.
void print(const simulate_options& options, const simulated_run& it, const simulation_report& report);

}  // namespace lsched::cli
