// Implements the option `--svg FILE` of `lsched show`.
#pragma once

#include <span>
#include <string>

#include "libsched/schedule/schedule.h"

namespace lsched::cli {

/// Draws the schedules of all ranks in steps (picture/builders.h) into the file `path`. The path "-" means standard
/// output. If the activation is "majority", the call of rank `initiator` starts the round. Returns the exit status.
/// Throws command_failure.
int draw_schedules(std::span<const schedule_ptr> world, rank initiator, const std::string& path);

}  // namespace lsched::cli
