// Figure 9 of Li et al. (2020) as the model has it: mean latency and number of active processes of synchronous,
// majority and solo allreduce when rank r calls r * skew late. What was measured only ever stands beside it.
#pragma once

#include "bindings/cli/simulate/simulate_options.h"

namespace lsched::cli {

/// Prints, and draws if asked for, three points for each number of ranks. Majority is averaged over initiators: all of
/// them up to 64 ranks, else 16 (8 from 10^5 ranks on) in the middle of equal parts of the world. Answers the exit
/// status. Throws command_failure.
int predict_fig9(const simulate_options& options, bool has_ranks);

}  // namespace lsched::cli
