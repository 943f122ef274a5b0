// What `lsched simulate --calibrate` prints.
#pragma once

#include "bindings/cli/simulate/simulate_options.h"

namespace lsched::cli {

/// Answers the exit status: 1 if the numbers are not usable. Throws command_failure.
int calibrate(const simulate_options& options);

}  // namespace lsched::cli
