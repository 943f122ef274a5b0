// Pictures of a simulated round and of a recorded run.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "bindings/cli/picture/picture.h"
#include "bindings/simulation/simulation.h"
#include "libsched/schedule/schedule.h"
#include "libsched/trace/trace.h"
#include "ops/status.h"

namespace lsched::cli {

/// What the events do not say.
struct picture_words {
  std::string title{};
  std::vector<std::string> caption{};
  rank most_ranks = 64;           ///< the first ranks are drawn
  std::size_t most_ops = 20'000;  ///< of more, the first in time; the caption says so
};

/// A simulated round, of which `record` has all ranks. `world`: the schedules, for tooltips; of more ranks than it has,
/// tooltips name kind, peer and tag.
schedule_picture picture_of_round(const simulation_record& record, const simulation_report& report,
                                  const simulation& what, std::span<const schedule_ptr> world,
                                  const picture_words& words);

/// A schedule in steps instead of time: an op takes a step, nop and capture none, and a message one on its way. A rank
/// does one op at a time, in the order in which ops can begin. `initiator`: whose call counts with majority. Failures:
/// those of simulate_schedules.
result<schedule_picture> picture_in_steps(std::span<const schedule_ptr> world, rank initiator,
                                          const picture_words& words);

/// A recorded run. `names`: of schedules.
schedule_picture picture_of_trace(std::span<const trace_event> events,
                                  const std::map<std::uint32_t, std::string>& names, const picture_words& words);

/// "LogGOPS: L 2500 ns, o 1500 ns, …": the machine, skew and noise of a simulation.
std::string words_for_machine(const simulation& what);

}  // namespace lsched::cli
