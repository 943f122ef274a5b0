#include "bindings/cli/simulate/simulation_files.h"

#include <CLI/Error.hpp>
#include <cstdio>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/goal/goal.h"

namespace lsched::cli {

simulation_files::simulation_files(const simulate_options& options, std::size_t runs) : options_(options) {
  if (options.trace.empty() && options.to_goal.empty()) return;
  if (runs != 1)
    throw CLI::ValidationError(options.trace.empty() ? "--to-goal" : "--trace", "a file is of one simulation");
  if (!options.trace.empty()) trace_.emplace(options.trace);
  if (!options.to_goal.empty()) goal_.emplace(options.to_goal);
  if (!goal_) record_.ranks = options.trace_ranks;
}

void simulation_files::write_goal(const simulated_run& it) {
  const goal_export made = require(export_goal(require(world_of(options_, it)), it.what, record_));
  goal_->write(to_goal_text(made.program, made.remark));
}

void simulation_files::write_trace(const simulated_run& it, const simulation_report& report) {
  record_.ranks = options_.trace_ranks;
  const auto events = trace_of(record_, report, it.what);
  const std::string name = it.given.empty() ? options_.collective + "/" + options_.algorithm : path_of(options_);
  trace_context around{.names = {{0, name}}, .remark = "simulated"};
  if (it.ranks > options_.trace_ranks) {
    around.remark += ": the first " + std::to_string(options_.trace_ranks) + " of " + std::to_string(it.ranks) +
                     " ranks; arrows from and to others are missing";
    std::fprintf(stderr, "%s: %s\n", options_.trace.c_str(), around.remark.c_str());
  }
  if (events.size() > around.most_events)
    std::fprintf(stderr, "%s: the first %zu of %zu events\n", options_.trace.c_str(), around.most_events,
                 events.size());
  trace_->write(to_trace_json(events, around));
}

}  // namespace lsched::cli
