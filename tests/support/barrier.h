// A barrier of the C interface.
#pragma once

#include "bindings/c/lsched.h"

namespace lsched::testing {

/// Creates the schedule of a barrier. Returns the status of lsched_collective_create.
inline lsched_status create_barrier(lsched_world* world, lsched_schedule** schedule, lsched_diagnostic* why) {
  const lsched_collective_desc desc{.struct_size = sizeof desc, .collective = "barrier"};
  return lsched_collective_create(world, &desc, schedule, why);
}

}  // namespace lsched::testing
