// A world out of a file, and what it has promised.
#pragma once

#include <string>
#include <vector>

#include "libsched/postcondition/aliasing.h"
#include "libsched/postcondition/postcondition.h"
#include "libsched/schedule/schedule.h"

namespace lsched::cli {

struct world_file {
  std::vector<schedule_ptr> world;
  postcondition promise;
  aliasing in_place;  ///< if its inputs and outputs share memory
  std::string title;  ///< "allreduce/tree, 3 ranks, promised as allreduce"
  bool is_promised;   ///< false: nobody has said what the outputs must hold
};

/// Reads the schedules of all ranks, as `lsched show --all` prints them. What their outputs must hold is what the
/// collective `promised` promises; if that is empty, the one that the schedules are named after, with its price if they
/// name a registered algorithm; if there is none, nothing. Throws command_failure, with line and column.
world_file read_world(const std::string& path, const std::string& promised);

}  // namespace lsched::cli
