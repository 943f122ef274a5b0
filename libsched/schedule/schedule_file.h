// The schedule file: from the text form (docs/reference/schedule_file.md) back to schedules.
//
// Files come from strangers. A reader's time and memory are bounded by the length of the text, whatever sizes the
// text declares, and whatever is wrong is refused with its line and column.
//
// There is one judge and one form. What a file describes goes through the builder, so whatever compile() refuses is
// refused here; and a file may say only what to_text says of the schedule that came out, in the same order, with any
// spacing and comments. Facts that compile() finds out by itself may be left out, but not be wrong.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libsched/schedule/schedule.h"
#include "ops/status.h"

namespace lsched {

/// The one schedule in `text`. Failures begin with "line L, column C: " (both from 1, columns in bytes). Codes:
/// ARGUMENT for text that is not of the form, UNSUPPORTED for another version of it, else those of
/// builder::compile, with `op` and `peer`.
result<schedule_ptr> parse_schedule(std::string_view text);

/// All schedules of one world, by rank: `text` holds every rank's exactly once, in any order, with equal names and
/// sizes of the world. Whether they fit together is not judged. Failures: as above.
result<std::vector<schedule_ptr>> parse_world(std::string_view text);

/// The schedule of one rank, out of a whole world's text or of its own alone. Failures: as above, and MISMATCH
/// where the text is about another rank or another size of the world.
result<schedule_ptr> parse_part(std::string_view text, world place);

/// A name as a file has it between its quotes: printable ASCII, but the quote, the backslash and everything else as
/// \xHH. Fit for terminals and for UTF-8, whatever a stranger called a schedule.
std::string escaped(std::string_view name);

}  // namespace lsched
