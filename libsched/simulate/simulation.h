// Simulated rounds with randomly drawn start times and noise, and functions that evaluate the reports.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "libsched/simulate/skew.h"
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
  round_no instance = 1;  ///< number of the simulated execution (round); each has its own skew and noise
  rank initiator = 0;     ///< with the activation policy `majority`: the rank whose call starts the round
  /// Called occasionally with the number of messages so far; may be empty.
  std::function<void(std::uint64_t)> progress{};
};

/// Simulates a round as simulate_round does (libsched/simulate/simulated_round.h), with drawn starts and noise.
result<simulation_report> simulate_schedules(const packed_world& ranks, const simulation& what,
                                             simulation_record* record = nullptr, bool trace = false);

/// Packs the schedules, and simulates the round like the previous function.
result<simulation_report> simulate_schedules(std::span<const schedule_ptr> ranks, const simulation& what,
                                             simulation_record* record = nullptr, bool trace = false);

/// Returns a simulated round as the events of a trace, like those of a real run. There is one event for each op of the
/// record, and one for the round of each rank below record.ranks. The schedule has the id 0. Simulated times are
/// rounded down to whole nanoseconds. `report` and `what` must belong to the simulation that filled the record.
std::vector<trace_event> trace_of(const simulation_record& record, const simulation_report& report,
                                  const simulation& what);

/// Returns the mean over ranks of the time between a rank's call and its result. The time of a rank that calls after
/// its result exists is 0.
picoseconds mean_latency(const simulation_report& report, const start_times& calls);

}  // namespace lsched
