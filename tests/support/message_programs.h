// Random programs of messages between ranks.
#pragma once

#include <cstdint>
#include <string>

#include "bindings/c/lsched.h"

namespace lsched::testing {

/// Runs this rank's part of the program that `seed` determines. Returns a description of the first error, or an empty
/// string.
std::string perform_message_program(std::uint64_t seed, lsched_world* world);

/// Returns the number of messages that all ranks together send in the program that `seed` determines.
std::uint64_t messages_of_program(std::uint64_t seed, std::int32_t ranks);

}  // namespace lsched::testing
