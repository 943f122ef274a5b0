// Makes a process of a test a rank, in the same way as `lsched run`.
#pragma once

#include <cstdlib>
#include <string>

#include "libsched/transport/shm/shm_segment.h"

namespace lsched::testing {

/// Makes lsched_world_open of this process join the world of this segment. The segment must outlive that call.
inline void be_launched(const shm_segment& segment, rank self) {
  setenv("LSCHED_RUN_FD", std::to_string(segment.descriptor()).c_str(), 1);
  setenv("LSCHED_RUN_RANK", std::to_string(self).c_str(), 1);
  setenv("LSCHED_RUN_SIZE", std::to_string(segment.ranks()).c_str(), 1);
}

}  // namespace lsched::testing
