// Proves a schedule when its ranks commit the schedule. Each rank describes its part in a text. From the texts of all
// ranks, each rank proves the whole world, as `lsched verify` proves a schedule file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "libsched/schedule/schedule.h"

namespace lsched {

/// Returns the part of one rank: its schedule, and the offset of its first input in its first output, in elements
/// (postcondition/aliasing.h). Without an offset, every buffer has memory of its own.
std::string describe_part(const schedule& program, std::optional<std::int64_t> offset);

/// Proves the world of these parts, which are ordered by rank. Returns the first fault, in the words of `lsched
/// verify`: UNMATCHED (messages do not pair up), CYCLE (ranks wait for each other) or ARGUMENT (any other fault). The
/// cost is not checked. `peer` and `op` of the failure name the rank and the op of the finding.
std::optional<failure> find_fault(std::span<const std::string> parts);

}  // namespace lsched
