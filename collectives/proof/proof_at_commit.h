// Proves a schedule during its commit. Each rank describes its part in a text. From the texts of all ranks, each rank
// proves the whole world, as `lsched verify` does with a schedule file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "libsched/schedule/schedule.h"

namespace lsched {

/// Returns a text with the schedule of one rank, and with the offset, in elements, of its first input in its first
/// output (postcondition/aliasing.h). If `offset` is empty, no buffers share memory.
std::string describe_part(const schedule& program, std::optional<std::int64_t> offset);

/// Proves the world that consists of `parts`, indexed by rank. Returns the first fault, with the text of `lsched
/// verify`: UNMATCHED (messages do not match), CYCLE (ranks wait for each other) or ARGUMENT (any other fault). The
/// cost is not checked. `peer` and `op` of the failure are the rank and the op of the fault.
std::optional<failure> find_fault(std::span<const std::string> parts);

}  // namespace lsched
