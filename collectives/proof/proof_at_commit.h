// Verifies a schedule during its commit. Each rank writes its own schedule as a text. From the texts of all ranks, each
// rank verifies the schedules of the whole world, as `lsched verify` does with a schedule file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "libsched/schedule/schedule.h"

namespace lsched {

/// Returns a text with the schedule of one rank, and with an offset in elements. `offset` is the position of the rank's
/// first input in its first output (postcondition/aliasing.h). If `offset` is empty, no buffers share memory.
std::string describe_part(const schedule& program, std::optional<std::int64_t> offset);

/// Verifies the schedules in `parts`, which are indexed by rank. Returns the first fault, or nothing if there is no
/// fault. The failure has the text of `lsched verify`, and one of these codes: UNMATCHED (messages do not match), CYCLE
/// (ranks wait for each other) or ARGUMENT (any other fault). The cost is not checked. `peer` and `op` of the failure
/// are the rank and the op of the fault.
std::optional<failure> find_fault(std::span<const std::string> parts);

}  // namespace lsched
