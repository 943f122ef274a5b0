// The critical path of a run: the chain of dependent ops and messages that determined the end of the run.
//
// For a simulated round, the simulator records the chain. Each step ends when the next step begins, and the last step
// ends with the round. So the lengths of all steps add up to the simulated time. If an op waited for a NIC or for the
// grant of a rendezvous, the previous step is the op that delayed the NIC or the grant. That op may belong to another
// rank. For a recorded run, the dependencies are not known. So a step begins at the end of the last event for which its
// op may have waited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "libsched/simulate/simulated_round.h"
#include "libsched/trace/trace.h"

namespace lsched::cli {

/// A step of the path: an op, and the time from the end of the previous step to the beginning of the next step.
struct path_step {
  std::size_t op = 0;       ///< index of the op in the record or in the events
  picoseconds begin = 0;    ///< end of the previous step
  picoseconds end = 0;      ///< beginning of the next step
  bool by_message = false;  ///< true if the next step is the receive of the message that this op sends
};

/// The key that identifies a message, equal for a send and its receive: schedule, round, source, target, tag, and true
/// for a signal.
using message_key = std::tuple<std::uint32_t, round_no, rank, rank, std::uint32_t, bool>;

message_key key_of(const trace_event& event);
message_key key_of(const simulated_op& op);

/// Returns the index of each send, by message key. A later send replaces an earlier send with the same key.
template <class Op>
std::map<message_key, std::size_t> sends_of(std::span<const Op> ops) {
  std::map<message_key, std::size_t> sends;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (is_outgoing(ops[i].kind)) sends[key_of(ops[i])] = i;
  return sends;
}

/// Returns true if the op receives from another rank.
template <class Op>
bool is_receive(const Op& op) {
  return is_incoming(op.kind) && op.peer != op.who;
}

/// Returns the path to the end of the rank that finishes last. `record` must cover all ranks, and must be from a
/// simulation that computed the critical path. Otherwise the path is empty.
std::vector<path_step> critical_path_of(const simulation_record& record, const simulation_report& report);

/// Returns the path to the op that ends last, with times in ps. Ignores events that are not ops.
std::vector<path_step> critical_path_of(std::span<const trace_event> events);

}  // namespace lsched::cli
