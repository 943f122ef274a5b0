// Schedule files: reading of schedules from their text form (docs/reference/schedule_file.md).
//
// Files are untrusted. A reader's time and memory are bounded by the length of the text, for any sizes that the text
// declares. Every error has a line and a column.
//
// A schedule must pass two checks. First, the builder must accept it, so all rules of compile() apply. Second, the text
// must have the words that to_text writes for the result, in the same order, with any spacing and comments. Facts that
// compile() derives may be left out, but must not be wrong.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libsched/schedule/schedule.h"
#include "ops/status.h"

namespace lsched {

/// Reads the only schedule in `text`. Error texts begin with "line L, column C: " (both from 1, columns in bytes).
/// Errors: ARGUMENT for text that does not have the form, UNSUPPORTED for another version of the form, else the errors
/// of builder::compile, with `op` and `peer`.
result<schedule_ptr> parse_schedule(std::string_view text);

/// Reads all schedules of one world, by rank. `text` must contain the schedule of each rank exactly once, in any order,
/// with equal names and world sizes. Does not check that the schedules match each other. Errors: as parse_schedule.
result<std::vector<schedule_ptr>> parse_world(std::string_view text);

/// Reads the schedule of one rank, from the text of a whole world or of this rank alone. Errors: as parse_schedule, and
/// MISMATCH if the text is for another rank or another world size.
result<schedule_ptr> parse_part(std::string_view text, world place);

/// Returns a name in the form that files have between quotes. Printable ASCII is unchanged. The quote, the backslash
/// and all other bytes become \xHH, so that untrusted names are safe on terminals and valid in UTF-8.
std::string escaped(std::string_view name);

}  // namespace lsched
