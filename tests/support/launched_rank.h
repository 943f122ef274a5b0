// Turns a process of a test into a rank, in the same way as `lsched run`.
#pragma once

#include <cstdlib>
#include <string>

#include "libsched/transport/shm/shm_segment.h"

namespace lsched::testing {

/// Makes lsched_world_open in this process join the world of `segment` as rank `self`. The segment must outlive the
/// call of lsched_world_open.
inline void be_launched(const shm_segment& segment, rank self) {
  setenv("LSCHED_RUN_FD", std::to_string(segment.descriptor()).c_str(), 1);
  setenv("LSCHED_RUN_RANK", std::to_string(self).c_str(), 1);
  setenv("LSCHED_RUN_SIZE", std::to_string(segment.ranks()).c_str(), 1);
}

}  // namespace lsched::testing
