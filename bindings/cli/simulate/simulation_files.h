// The files that `lsched simulate` writes beside its report: a trace, a GOAL program.
#pragma once

#include <optional>

#include "bindings/cli/common/output_file.h"
#include "bindings/cli/simulate/simulated_run.h"

namespace lsched::cli {

class simulation_files {
 public:
  /// Creates them. Throws the parser's errors unless there is one run, and command_failure.
  simulation_files(const simulate_options& options, std::size_t runs);

  /// To be filled in; null if nobody asks.
  simulation_record* record() { return trace_ || goal_ ? &record_ : nullptr; }

  void write(const simulated_run& it, const simulation_report& report) {
    if (goal_) write_goal(it);
    if (trace_) write_trace(it, report);
  }

 private:
  void write_goal(const simulated_run& it);
  void write_trace(const simulated_run& it, const simulation_report& report);

  const simulate_options& options_;
  std::optional<output_file> trace_, goal_;
  simulation_record record_;
};

}  // namespace lsched::cli
