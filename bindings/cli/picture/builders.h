// Builders of the pictures of a simulated round and of a recorded run.
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

/// The texts and limits of a picture.
struct picture_words {
  std::string title{};
  std::vector<std::string> caption{};
  rank most_ranks = 64;           ///< only the first ranks are drawn
  std::size_t most_ops = 20'000;  ///< only the first ops in time are drawn, with a note in the caption
};

/// Returns the picture of a simulated round. `record` must cover all ranks. Tooltips contain the ops of the schedules
/// in `world`. Tooltips of ranks beyond `world` contain only kind, peer and tag.
schedule_picture picture_of_round(const simulation_record& record, const simulation_report& report,
                                  const simulation& what, std::span<const schedule_ptr> world,
                                  const picture_words& words);

/// Returns the picture of a round in steps instead of time. An op takes one step, a nop or capture takes no step, and a
/// message takes one step on its way. A rank executes one op at a time, in the order in which ops can begin.
/// `initiator` is the rank whose call starts the round under majority. Failures: those of packed_world and
/// simulate_round.
result<schedule_picture> picture_in_steps(std::span<const schedule_ptr> world, rank initiator,
                                          const picture_words& words);

/// Returns the picture of a recorded run. `names` has the names of the schedules.
schedule_picture picture_of_trace(std::span<const trace_event> events,
                                  const std::map<std::uint32_t, std::string>& names, const picture_words& words);

/// Describes the machine, skew and noise of a simulation: "LogGOPS machine: L 2500 ns, o 1500 ns, …".
std::string words_for_machine(const simulation& what);

}  // namespace lsched::cli
