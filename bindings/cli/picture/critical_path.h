// The critical path of a run: the chain of ops and messages that its end waited for.
//
// Of a simulated round the chain is exact: each step ends where the next begins, the last ends with the round, so their
// lengths add up to the simulated time. What a message waits for at NICs counts as part of the message. Of a recorded
// run, where nobody knows the deps, each step begins when the last thing had ended that it can have waited for.
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

/// A step: an op, and what comes after it until the next op of the chain begins.
struct path_step {
  std::size_t op = 0;       ///< index
  picoseconds begin = 0;    ///< of what it takes part in; the end of the step before
  picoseconds end = 0;      ///< the beginning of the next step
  bool by_message = false;  ///< the next step is the receive of the message that this op sends
};

/// Which send a receive belongs to: schedule, round, source, target, tag, whether it is a signal.
using message_key = std::tuple<std::uint32_t, round_no, rank, rank, std::uint32_t, bool>;

message_key key_of(const trace_event& event);
message_key key_of(const simulated_op& op);

/// Indexes of all sends by their message. Later ones of the same key replace earlier ones.
template <class Op>
std::map<message_key, std::size_t> sends_of(std::span<const Op> ops) {
  std::map<message_key, std::size_t> sends;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (is_outgoing(ops[i].kind)) sends[key_of(ops[i])] = i;
  return sends;
}

/// Whether it hears from another rank.
template <class Op>
bool is_receive(const Op& op) {
  return is_incoming(op.kind) && op.peer != op.who;
}

/// Whether the message of a send is announced and asked for (rendezvous).
using long_message = std::function<bool(const simulated_op&)>;

/// Of the rank that finishes last, from its first op on; empty without ops. The record is of all ranks.
std::vector<path_step> critical_path_of(const simulation_record& record, const simulation_report& report,
                                        const long_message& is_long = {});

/// Of the op that ends last; times in ps. Events that are no ops are passed over.
std::vector<path_step> critical_path_of(std::span<const trace_event> events);

}  // namespace lsched::cli
