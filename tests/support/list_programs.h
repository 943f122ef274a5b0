// Random programs of gatherv, scatterv, allgatherv and alltoallv. The counts change from round to round, and several
// rounds are in flight at a time.
#pragma once

#include <cstdint>
#include <string>

#include "bindings/c/lsched.h"

namespace lsched::testing {

/// Runs this rank's part of the program that `seed` determines. The library receives only this rank's counts. The
/// counts of other ranks are used only to check the results. Returns a description of the first error, or an empty
/// string.
std::string perform_list_program(std::uint64_t seed, lsched_world* world);

}  // namespace lsched::testing
