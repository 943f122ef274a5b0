// Builders of the pictures of a simulated round and of a recorded run.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "bindings/cli/picture/picture.h"
#include "libsched/simulate/simulation.h"
#include "libsched/schedule/schedule.h"
#include "libsched/trace/trace.h"
#include "ops/status.h"

namespace lsched::cli {

/// The number of ranks, from 0 on, that a picture or a trace of a simulated round shows.
inline constexpr rank k_drawn_ranks = 64;

/// The texts and limits of a picture.
struct picture_words {
  std::string title{};
  std::vector<std::string> caption{};
  rank most_ranks = k_drawn_ranks;  ///< maximum number of ranks drawn; the first ranks are drawn
  std::size_t most_ops = 20'000;    ///< maximum number of ops drawn; the first ops in time are drawn, and the caption
                                    ///< notes the limit
};

/// Returns the picture of a simulated round. `record` must cover all ranks, and contain the critical path. For ranks in
/// `world`, tooltips contain the ops of the schedules. For other ranks, tooltips contain only kind, peer and tag.
schedule_picture picture_of_round(const simulation_record& record, const simulation_report& report,
                                  const simulation& what, std::span<const schedule_ptr> world,
                                  const picture_words& words);

/// Returns the picture of a round in steps instead of time. An op takes one step. A nop or a capture (which takes a
/// rank's contribution) takes no step. A message is in flight for one step. A rank executes one op at a time, in the
/// order in which ops become ready. If the activation is "majority", the call of rank `initiator` starts the round.
/// Failures: those of packed_world and simulate_round.
result<schedule_picture> picture_in_steps(std::span<const schedule_ptr> world, rank initiator,
                                          const picture_words& words);

/// Returns the picture of a recorded run. `names` has the names of the schedules, by their number in the events.
schedule_picture picture_of_trace(std::span<const trace_event> events,
                                  const std::map<std::uint32_t, std::string>& names, const picture_words& words);

/// Returns a description of the machine, skew and noise of a simulation, such as "LogGOPS machine: L 2500 ns, o 1500
/// ns, …".
std::string words_for_machine(const simulation& what);

}  // namespace lsched::cli
