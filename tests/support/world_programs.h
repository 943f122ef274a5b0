// Random programs over worlds: splits, creates, rounds in several worlds at a time, destroys and closes in any order.
#pragma once

#include <cstdint>
#include <string>

#include "bindings/c/lsched.h"

namespace lsched::testing {

/// Runs this rank's part of the seed's two programs. Each program runs in its own thread, and in its own world of all
/// ranks. `opened` is closed while the threads run. Returns a description of the first error, or an empty string.
std::string perform_random_program(std::uint64_t seed, lsched_world* opened);

}  // namespace lsched::testing
