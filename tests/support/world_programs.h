// Random programs over worlds: splits, creates, rounds in several worlds at a time, destroys and closes in any order.
#pragma once

#include <cstdint>
#include <string>

#include "bindings/c/lsched.h"

namespace lsched::testing {

/// What this rank does of the seed's programs: two threads carry out one each, in a world of their own that has
/// all ranks. The world that was opened is closed while they are at it. Answers what went wrong; empty: nothing.
std::string perform_random_program(std::uint64_t seed, lsched_world* opened);

}  // namespace lsched::testing
