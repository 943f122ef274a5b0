// Reader for schedule files, which contain schedules in text form (docs/reference/schedule_file.md).
//
// Files are untrusted. So time and memory of the reader depend on the length of the text, not on sizes that the text
// declares. Every error contains a line and a column.
//
// A schedule must pass two checks. First, the builder must accept the schedule, so all rules of compile() apply.
// Second, the text must contain the same words, in the same order, that to_text writes for the compiled schedule.
// Spacing and comments do not matter. Words that compile() can derive may be left out, but must not be wrong.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libsched/schedule/schedule.h"
#include "ops/status.h"

namespace lsched {

/// Reads a text that contains exactly one schedule. Error texts begin with "line L, column C: ". L and C begin at 1,
/// and C is in bytes. Errors: ARGUMENT if the syntax is wrong, UNSUPPORTED for another version of the text form, and
/// all errors of builder::compile, with `op` and `peer`.
result<schedule_ptr> parse_schedule(std::string_view text);

/// Reads the schedules of all ranks of a world. The result is indexed by rank. `text` must contain the schedule of each
/// rank exactly once, in any order. All schedules must have the same name and world size. Does not check that sends and
/// receives of the schedules match. Errors: those of parse_schedule.
result<std::vector<schedule_ptr>> parse_world(std::string_view text);

/// Reads the schedule of rank `place.self`. `text` may contain the schedules of the whole world, or only this schedule.
/// Errors: those of parse_schedule, and MISMATCH if the text is for another rank or another world size.
result<schedule_ptr> parse_part(std::string_view text, world place);

/// Returns the name with the escape sequences that a quoted name has in a schedule file. Printable ASCII is unchanged.
/// The quote, the backslash and all other bytes become \xHH, so that untrusted names are safe on terminals and valid in
/// UTF-8.
std::string escaped(std::string_view name);

}  // namespace lsched
