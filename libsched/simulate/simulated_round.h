// The simulator computes the times of one round of the schedules of a world. It is a discrete-event simulator.
//
// Ops fire by the rules of round.h. Signals, captures, and ops that wait for only some of their deps are supported. The
// cost of a message follows the LogGOPS model (loggops.h). A receive is matched as soon as it has fired and its message
// has arrived. A rank handles messages in the order of arrival. Messages that arrive at the same time are ordered by
// source, then by kind, then by tag. A rank executes ops in the order in which they fire. All ops that a message
// enables are executed before the next message is handled (run to completion, as in the engine). A send of more than S
// bytes (rendezvous) completes only when all bytes have left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "libsched/schedule/schedule.h"
#include "libsched/simulate/loggops.h"
#include "ops/status.h"

namespace lsched {

class packed_world;

/// Input of the simulator: the machine, and the conditions of the round.
struct simulated_round {
  machine where{};
  std::function<picoseconds(rank)> starts{};  ///< time when a rank begins; empty: 0 for all ranks
  /// Returns the delay of a charge. A charge is an interval of CPU time of op `op`. Without the delay, the charge lasts
  /// `cost`. The result must not depend on the order of the calls. Empty: no delays.
  std::function<picoseconds(rank, op_id op, picoseconds cost)> noise{};
  round_no instance = 1;
  rank initiator = 0;  ///< with the activation policy `majority`: the only rank whose call has an effect
  /// If not empty, called periodically with the number of messages so far.
  std::function<void(std::uint64_t)> progress{};
};

/// The execution of an op by its rank's CPU. The CPU time of rendezvous grants is not recorded, because a grant belongs
/// to no op.
struct simulated_op {
  rank who = 0;
  op_id op = 0;
  op_kind kind = op_kind::nop;
  rank peer = k_no_rank;  ///< peer of a communication op; for a call op, the rank itself
  std::uint32_t tag = 0;
  picoseconds begin = 0, end = 0;        ///< interval of execution; a receive begins when it is matched
  bool is_void = false;                  ///< the guard of the op was false
  std::size_t cause = k_no_recorded_op;  ///< index, in the record, of the op that determined `begin`. Not set if the
                                         ///< start of the rank determined `begin`, or if no critical path is computed
};

/// A dep whose token was among the first `need` tokens of op `after`. Such a dep helped to make `after` fire.
struct simulated_dep {
  rank who = 0;
  op_id before = 0, after = 0;
};

struct simulation_record {
  rank ranks = std::numeric_limits<rank>::max();  ///< set by the caller: ranks below this number are recorded
  std::vector<simulated_op> ops{};                ///< ops of each rank in the order of execution
  std::vector<simulated_dep> deps{};              ///< deps in the order in which the tokens arrived
  std::size_t last_op = k_no_recorded_op;  ///< index of the last op on the critical path, if that path is computed
};

/// Size in bytes of a signal in the cost model: the size of the signal's register.
inline constexpr std::uint64_t k_signal_bytes = 8;

struct simulation_report {
  std::vector<picoseconds> finish;  ///< time when the round of each rank ends, by rank
  std::uint64_t messages = 0;       ///< payload messages
  std::uint64_t bytes = 0;          ///< payload bytes
  std::uint64_t signals = 0;
  std::uint64_t nic_waits = 0;    ///< number of messages that had to wait for the receiver's NIC
  rank active = 0;                ///< number of ranks that had called before their contributions were captured
  std::size_t memory = 0;         ///< maximum memory in bytes, including the schedules and this report
  double seconds = 0;             ///< wall-clock time of the simulation
  double generation_seconds = 0;  ///< wall-clock time for the generation of schedules; set by the caller
  std::optional<path_parts> critical_path{};  ///< critical path of the rank that finishes last, if requested

  picoseconds last() const { return finish.empty() ? 0 : *std::ranges::max_element(finish); }
};

/// Simulates round number `what.instance`. The activation in the schedules defines how the round starts. With the
/// activation policy `majority`, only the call of `what.initiator` has an effect. If `trace` is true, the report and
/// the record contain the critical path. A trace or a record makes the simulation slower, and needs several times the
/// memory.
///
/// Returns ARGUMENT if the world is empty, if its schedules do not belong together, if a start time is negative or too
/// late, or if the activation is deadline(auto). Also returns ARGUMENT if the lookahead is not positive. The lookahead
/// is L + o, or L if a message uses rendezvous. Returns UNMATCHED if a message has no receive. Returns UNSUPPORTED if
/// the simulated time or the number of bytes is too large. Returns STATE if a rank cannot end the round. The error text
/// then names the rank.
result<simulation_report> simulate_round(const packed_world& ranks, const simulated_round& what,
                                         simulation_record* record = nullptr, bool trace = false);

}  // namespace lsched
