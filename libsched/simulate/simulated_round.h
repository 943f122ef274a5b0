// The event engine: computes the times of one round of any schedules.
//
// Ops fire by the rules of round.h, with any triggers, quorums, signals and captures. A message has the cost of LogGOPS
// (loggops.h). A receive is matched as soon as it has fired and its message is there. Messages are taken in by arrival,
// then source, then tag. Ops are carried out in the order in which they fire. All ops that a message enables are
// carried out before the next message (run to completion, as in the engine). A send beyond S completes only when its
// bytes have left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "libsched/schedule/schedule.h"
#include "libsched/simulate/loggops.h"
#include "ops/status.h"

namespace lsched {

class packed_world;

/// The delays of a send.
struct disturbance {
  picoseconds noise = 0, jitter = 0;
  picoseconds drag = 0;       ///< delay of the sender's CPU by its pace
  picoseconds head_drag = 0;  ///< part of it before the message can leave
};

/// The delays of CPUs and of the wire. No result may depend on the order of the calls. `op` is the number of the charge
/// in the program of the rank.
struct disturbances {
  /// Returns the delay of a CPU charge of `cost` that begins at `begin`; negative for fast ranks.
  std::function<picoseconds(rank, std::uint64_t op, picoseconds begin, picoseconds cost)> of_charge;
  std::function<disturbance(rank, std::uint64_t op, picoseconds begin, const message_cost&)> of_send;
  /// Returns the delay of a CPU charge by the pace of the rank alone.
  std::function<picoseconds(rank, picoseconds cost)> drag;
  bool has_fast_ranks = false;  ///< some ranks run at up to twice their normal speed
};

/// One round of a world on one machine.
struct simulated_round {
  machine where{};
  std::function<picoseconds(rank)> starts{};  ///< time when a rank begins; empty: 0 for all ranks
  std::optional<disturbances> noise{};
  round_no instance = 1;
  rank initiator = 0;  ///< rank whose call counts, with policy majority
  /// Called periodically with the number of messages so far; may be empty.
  std::function<void(std::uint64_t)> progress{};
};

/// An op as carried out by its rank's CPU. Grants of rendezvous have no op.
struct simulated_op {
  rank who = 0;
  op_id op = 0;
  op_kind kind = op_kind::nop;
  rank peer = k_no_rank;  ///< peer of a communication op; the rank itself for its own call
  std::uint32_t tag = 0;
  picoseconds begin = 0, end = 0;  ///< a receive: from its match to its end
  bool is_void = false;            ///< its guard did not hold
};

/// A dep whose token an op waited for. An op that has fired has `need` of these.
struct simulated_dep {
  rank who = 0;
  op_id before = 0, after = 0;
};

/// The recorded ops and deps of a round.
struct simulation_record {
  rank ranks = std::numeric_limits<rank>::max();  ///< ranks below this number are recorded
  std::vector<simulated_op> ops{};                ///< in the order of each rank's CPU
  std::vector<simulated_dep> deps{};              ///< in the order of the tokens
};

/// The bytes that a signal counts as: the size of its register.
inline constexpr std::uint64_t k_signal_bytes = 8;

struct simulation_report {
  std::string_view engine;
  std::vector<picoseconds> finish;  ///< by rank: end of its last step
  std::uint64_t messages = 0;       ///< payload messages
  std::uint64_t bytes = 0;          ///< payload bytes
  std::uint64_t signals = 0;
  std::uint64_t nic_waits = 0;    ///< messages that had to wait for their receiver's NIC
  rank active = 0;                ///< ranks that had called when the round took their contribution
  std::size_t memory = 0;         ///< most bytes that the engine held, with the schedules and the report
  double seconds = 0;             ///< wall-clock time of the simulation
  double generation_seconds = 0;  ///< wall-clock time for the schedules; set by the caller that generates them
  std::optional<path_parts> critical_path{};  ///< path of the rank that finishes last, if requested

  picoseconds last() const { return finish.empty() ? 0 : *std::ranges::max_element(finish); }
};

/// Simulates round `what.instance`. The schedules define how it starts. With policy majority, only the call of
/// `what.initiator` counts. With `trace`, the report has the critical path. A trace or a record makes the simulation
/// slower, and takes several times the memory.
///
/// Failures: ARGUMENT (no ranks, or not of one world; no lookahead, because L + o, or L with rendezvous, is not
/// positive; a start that is negative or too late; an automatic deadline), UNMATCHED (a message without a receive),
/// UNSUPPORTED (too long or too many bytes), STATE (a rank cannot end; the text names it).
result<simulation_report> simulate_round(const packed_world& ranks, const simulated_round& what,
                                         simulation_record* record = nullptr, bool trace = false);

}  // namespace lsched
