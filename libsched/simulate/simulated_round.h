// The event engine: times one round of a world's schedules, whatever wrote them.
//
// Ops fire by round.h: any triggers, quorums, signals, captures. A message costs what LogGOPS says
// (loggops.h). A receive is matched as soon as it has fired and its message is there: messages are taken in
// the order of arrival, then source, then tag. An op is carried out at once, in the order in which ops fire, and so is
// what a message makes possible before the next message (run to completion, as the engine does). A send beyond S is
// complete when its bytes have left, not before.
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

/// What happens to a send on its way.
struct disturbance {
  picoseconds noise = 0, jitter = 0;
  picoseconds drag = 0;       ///< of the sender's CPU, by its pace
  picoseconds head_drag = 0;  ///< of that until the message can leave
};

/// What CPUs and the wire lose. No answer depends on the order of the questions; `op` counts the charges of a rank's
/// program.
struct disturbances {
  /// What a CPU charge of `cost` that begins at `begin` takes longer than that; below 0 for fast ranks.
  std::function<picoseconds(rank, std::uint64_t op, picoseconds begin, picoseconds cost)> of_charge;
  std::function<disturbance(rank, std::uint64_t op, picoseconds begin, const message_cost&)> of_send;
  /// What a CPU charge takes longer by the pace of the rank alone.
  std::function<picoseconds(rank, picoseconds cost)> drag;
  bool has_fast_ranks = false;  ///< up to twice as fast as they should be
};

/// One round of a world on one machine.
struct simulated_round {
  machine where{};
  std::function<picoseconds(rank)> starts{};  ///< when a rank begins; empty: all at 0
  std::optional<disturbances> noise{};
  round_no instance = 1;
  rank initiator = 0;  ///< whose call counts with majority
  /// Called now and then with the number of messages so far; may be empty.
  std::function<void(std::uint64_t)> progress{};
};

/// One op as it happened: what the rank's CPU did for it. Grants of rendezvous have no op.
struct simulated_op {
  rank who = 0;
  op_id op = 0;
  op_kind kind = op_kind::nop;
  rank peer = k_no_rank;  ///< of communication; the rank itself: its own call
  std::uint32_t tag = 0;
  picoseconds begin = 0, end = 0;  ///< a receive: from match to done
  bool is_void = false;            ///< its guard did not hold
};

/// A dep whose token an op waited for: `need` of them an op that fired.
struct simulated_dep {
  rank who = 0;
  op_id before = 0, after = 0;
};

/// Fills up if given; costs nothing otherwise.
struct simulation_record {
  rank ranks = std::numeric_limits<rank>::max();  ///< those below this are recorded
  std::vector<simulated_op> ops{};                ///< in the order of each rank's CPU
  std::vector<simulated_dep> deps{};              ///< in the order of the tokens
};

/// Bytes a signal is counted as: its register.
inline constexpr std::uint64_t k_signal_bytes = 8;

struct simulation_report {
  std::string_view engine;
  std::vector<picoseconds> finish;  ///< by rank: when its last step is done
  std::uint64_t messages = 0;       ///< payload
  std::uint64_t bytes = 0;          ///< of these
  std::uint64_t signals = 0;
  std::uint64_t nic_waits = 0;                ///< messages that had to wait for their receiver's NIC
  rank active = 0;                            ///< ranks that had called when the round took their contribution
  std::size_t memory = 0;                     ///< bytes the engine held at most, schedules and the report included
  double seconds = 0;                         ///< of our own time, for the events
  double generation_seconds = 0;              ///< for the schedules; filled in by whoever generates them
  std::optional<path_parts> critical_path{};  ///< of the rank that finishes last, if asked for

  picoseconds last() const { return finish.empty() ? 0 : *std::ranges::max_element(finish); }
};

/// Round `what.instance`; the schedules say how it starts, and `what.initiator` whose call counts with majority. With
/// `trace`, the report has the critical path; slower, and several times the memory. So is a record. Failures: ARGUMENT
/// (no ranks, or not of one world; no lookahead: L + o, or L with rendezvous, is not positive; a start that is negative
/// or too late), UNMATCHED (a message that nobody receives), UNSUPPORTED (too long or too many bytes), STATE (a rank
/// gets stuck; the text says where).
result<simulation_report> simulate_round(const packed_world& ranks, const simulated_round& what,
                                         simulation_record* record = nullptr, bool trace = false);

}  // namespace lsched
