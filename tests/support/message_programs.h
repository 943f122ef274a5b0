// Random programs of messages between ranks.
#pragma once

#include <cstdint>
#include <string>

#include "bindings/c/lsched.h"

namespace lsched::testing {

/// What this rank does of the seed's program. Answers what went wrong; empty: nothing.
std::string perform_message_program(std::uint64_t seed, lsched_world* world);

/// Messages that all ranks of such a program send.
std::uint64_t messages_of_program(std::uint64_t seed, std::int32_t ranks);

}  // namespace lsched::testing
