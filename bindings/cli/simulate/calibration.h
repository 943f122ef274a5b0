// L, o, g and G of this machine, measured through the public C API between two threads, and what the model then
// predicts for a few collectives, beside what they take. Rounds in which a thread slept are not looked at: of many
// short batches the fast ones count, and of several repetitions their median.
#pragma once

namespace lsched::cli {

/// Measures and prints; takes a few seconds. Answers the exit status: 1 if the numbers are not usable. Throws
/// command_failure.
int calibrate(bool as_json);

}  // namespace lsched::cli
