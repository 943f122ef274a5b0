// A simulated round whose starts, noise and jitter are drawn, and what can be said of its report.
//
// For the command, benchmarks and tests; libsched.so takes its starts from the caller and knows no noise.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "bindings/simulation/skew.h"
#include "libsched/simulate/packed_world.h"
#include "libsched/simulate/simulated_round.h"
#include "libsched/trace/trace.h"
#include "ops/status.h"

namespace lsched {

/// One round of a world on one machine.
struct simulation {
  machine where{};
  start_skew skew{};
  cpu_noise noise{};
  round_no instance = 1;  ///< another one draws other skews and noise
  rank initiator = 0;     ///< whose call counts with majority
  /// Called now and then with the number of messages so far; may be empty.
  std::function<void(std::uint64_t)> progress{};
};

/// As simulate_round (libsched/simulate/simulated_round.h).
result<simulation_report> simulate_schedules(const packed_world& ranks, const simulation& what,
                                             simulation_record* record = nullptr, bool trace = false);

/// The same of schedules that are not packed yet.
result<simulation_report> simulate_schedules(std::span<const schedule_ptr> ranks, const simulation& what,
                                             simulation_record* record = nullptr, bool trace = false);

/// A simulated run as the events of a trace, as real runs have them: an event for each op of the record and one for the
/// round of each rank, of the ranks below record.ranks, as schedule 0. Simulated times are rounded down to whole
/// nanoseconds. `report` is of the run that filled the record, `what` what was simulated there.
std::vector<trace_event> trace_of(const simulation_record& record, const simulation_report& report,
                                  const simulation& what);

/// Mean over ranks of the time between a rank's call and its result; 0 for those who call when it is there.
picoseconds mean_latency(const simulation_report& report, const start_times& calls);

}  // namespace lsched
