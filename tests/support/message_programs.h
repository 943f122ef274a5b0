// Random programs of messages between ranks.
#pragma once

#include <cstdint>
#include <string>

#include "bindings/c/lsched.h"

namespace lsched::testing {

/// Runs this rank's part of the program that `seed` determines. Returns a description of the first error, or an empty
/// string.
std::string perform_message_program(std::uint64_t seed, lsched_world* world);

}  // namespace lsched::testing
