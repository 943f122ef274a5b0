// `--svg FILE` of `lsched show`.
#pragma once

#include <span>
#include <string>

#include "libsched/schedule/schedule.h"

namespace lsched::cli {

/// Draws the schedules of all ranks in steps (picture/builders.h) into a file; "-" is standard output. `initiator` is
/// the rank whose call starts the round under majority. Returns the exit status. Throws command_failure.
int draw_schedules(std::span<const schedule_ptr> world, rank initiator, const std::string& path);

}  // namespace lsched::cli
