// The critical path of a run: the chain of ops and messages that the end of the run waited for.
//
// For a simulated round, the chain is exact. Each step ends where the next step begins, and the last step ends with the
// round, so that the lengths add up to the simulated time. The time that a message waits at NICs is part of the
// message. For a recorded run, the deps are not known. A step then begins at the end of the last event that it may have
// waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "libsched/simulate/simulated_round.h"
#include "libsched/trace/trace.h"

namespace lsched::cli {

/// A step: an op, and the time after it until the next op of the chain begins.
struct path_step {
  std::size_t op = 0;       ///< index in the record, or among the events
  picoseconds begin = 0;    ///< the end of the step before
  picoseconds end = 0;      ///< the beginning of the next step
  bool by_message = false;  ///< the next step is the receive of the message that this op sends
};

/// The key that a send shares with its receive: schedule, round, source, target, tag, and true for a signal.
using message_key = std::tuple<std::uint32_t, round_no, rank, rank, std::uint32_t, bool>;

message_key key_of(const trace_event& event);
message_key key_of(const simulated_op& op);

/// Returns the indices of all sends, by key. A later send replaces an earlier send with the same key.
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

/// A predicate that is true for sends whose message needs a rendezvous.
using long_message = std::function<bool(const simulated_op&)>;

/// Returns the path to the end of the rank that finishes last, or an empty path without ops. `record` must cover all
/// ranks.
std::vector<path_step> critical_path_of(const simulation_record& record, const simulation_report& report,
                                        const long_message& is_long = {});

/// Returns the path to the op that ends last, with times in ps. Ignores events that are not ops.
std::vector<path_step> critical_path_of(std::span<const trace_event> events);

}  // namespace lsched::cli
