// `--svg FILE` of show, simulate and trace.
#pragma once

#include <span>
#include <string>

#include "libsched/schedule/schedule.h"

namespace lsched::cli {

/// Draws the schedules of all ranks in steps (picture/builders.h) into a file; "-" is standard output. `initiator`:
/// whose call counts with majority. Throws command_failure. Answers the exit status.
int draw_schedules(std::span<const schedule_ptr> world, rank initiator, const std::string& path);

}  // namespace lsched::cli
