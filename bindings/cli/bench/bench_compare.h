// `lsched bench compare`.
#pragma once

#include "bindings/cli/common/commands.h"

namespace lsched::cli {

/// Adds the command to those of `bench`.
void add_compare(CLI::App& bench, command_context& context);

}  // namespace lsched::cli
