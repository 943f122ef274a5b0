// A file with the schedules of all ranks (docs/schedule_file.md), as `lsched show --all` prints it.
#pragma once

#include <string>
#include <vector>

#include "libsched/schedule/schedule.h"

namespace lsched::cli {

/// By rank. Throws command_failure, with the path.
std::vector<schedule_ptr> read_world_file(const std::string& path);

}  // namespace lsched::cli
