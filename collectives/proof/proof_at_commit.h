// The proof of a schedule when its ranks commit the schedule. Each rank describes its part in a text; from the texts of
// all ranks, each rank proves the whole world, as `lsched verify` proves a schedule file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "libsched/schedule/schedule.h"

namespace lsched {

/// The part of one rank: its schedule, and where its first input begins in its first output, in elements
/// (postcondition/aliasing.h). Nothing: all buffers are memory of their own.
std::string describe_part(const schedule& program, std::optional<std::int64_t> offset);

/// Returns why the world of these parts, by rank, does not hold, in the words of `lsched verify`: UNMATCHED (messages
/// do not pair up), CYCLE (ranks wait for each other) or ARGUMENT (all else). Nothing is demanded of the cost. `peer`
/// and `op` name the rank and the op of the finding.
std::optional<failure> find_fault(std::span<const std::string> parts);

}  // namespace lsched
