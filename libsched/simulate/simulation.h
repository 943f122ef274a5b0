// What is simulated, and what came out.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "libsched/schedule/schedule.h"
#include "libsched/simulate/loggops.h"
#include "libsched/simulate/skew.h"
#include "libsched/trace/trace.h"
#include "ops/status.h"

namespace lsched {

/// One round of a world on one machine.
struct simulation {
  machine where{};
  start_skew skew{};
  cpu_noise noise{};
  round_no instance = 1;  ///< another one draws other skews and noise
  rank initiator = 0;     ///< whose call counts with majority
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

  picoseconds last() const;
  /// The time by which a share `q` (0 … 1) of the ranks has finished.
  picoseconds quantile(double q) const;
};

/// What sums of bytes stay at instead of wrapping around.
inline constexpr std::uint64_t k_too_many_bytes = std::numeric_limits<std::uint64_t>::max();

inline void add_bytes(std::uint64_t& all, std::uint64_t more) {
  if (__builtin_add_overflow(all, more, &all)) all = k_too_many_bytes;
}

/// Why a simulation up to, and not including, `limit` cannot begin there: ARGUMENT, with the rank.
std::optional<failure> validate(const start_times& starts, rank size, picoseconds limit);

/// What is handed out has passed here. Failures: UNSUPPORTED (a rank ends at k_forever; too many bytes).
result<simulation_report> checked(simulation_report report);

/// A simulated run as the events of a trace, as real runs have them: an event for each op of the record and one for the
/// round of each rank, of the ranks below record.ranks, as schedule 0. Simulated times are rounded down to whole
/// nanoseconds. `report` is of the run that filled the record, `what` what was simulated there.
std::vector<trace_event> trace_of(const simulation_record& record, const simulation_report& report,
                                  const simulation& what);

/// Mean over ranks of the time between a rank's call and its result; 0 for those who call when it is there.
picoseconds mean_latency(const simulation_report& report, const start_times& calls);

}  // namespace lsched
