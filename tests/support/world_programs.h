// Random programs that split worlds, create schedules, run rounds in several worlds at a time, and destroy and close
// objects in any order.
#pragma once

#include <cstdint>
#include <string>

#include "bindings/c/lsched.h"

namespace lsched::testing {

/// Runs this rank's part of the two programs that `seed` determines. Each program runs in a separate thread, and in a
/// separate world of all ranks. The function closes `opened` while the threads run. Returns a description of the first
/// error, or an empty string.
std::string perform_random_program(std::uint64_t seed, lsched_world* opened);

}  // namespace lsched::testing
