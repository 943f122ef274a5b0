// What `lsched simulate --fig9` prints and draws.
#pragma once

#include "bindings/cli/simulate/simulate_options.h"

namespace lsched::cli {

/// Answers the exit status. Throws command_failure.
int predict(const simulate_options& options, bool has_ranks);

}  // namespace lsched::cli
