// Random programs of gatherv, scatterv, allgatherv and alltoallv whose counts come with each round, several rounds at a
// time.
#pragma once

#include <cstdint>
#include <string>

#include "bindings/c/lsched.h"

namespace lsched::testing {

/// What this rank does of the seed's program. It tells the library its own counts alone, and knows the others' only to
/// check what has come. Answers what went wrong; empty: nothing.
std::string perform_list_program(std::uint64_t seed, lsched_world* world);

}  // namespace lsched::testing
