// What is simulated, and what came out: the words that all engines share.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "libsched/loggops.h"
#include "libsched/program.h"
#include "libsched/schedule.h"
#include "libsched/skew.h"

namespace lsched {

/// One instance of a collective on one machine.
struct simulation {
  program what = recursive_doubling_program{};
  machine where{};
  start_skew skew{};
  cpu_noise noise{};
  round_no instance = 1;  ///< another one draws other skews and noise
  /// solo, majority: an activation broadcast goes before the program (recursive doubling only), and a rank that has not
  /// called takes part. `initiator` is the rank whose call counts with majority. none, full: every rank begins with its
  /// own call.
  activation_policy starts = activation_policy::none;
  rank initiator = 0;
  /// Called now and then with the number of messages so far; may be empty.
  std::function<void(std::uint64_t)> progress{};
};

/// Bytes a signal is counted as: its register.
inline constexpr std::uint64_t k_signal_bytes = 8;

struct simulation_report {
  std::string_view engine;
  std::vector<picoseconds> finish;   ///< by rank: when its last step is done
  std::uint64_t messages = 0;        ///< payload
  std::uint64_t bytes = 0;           ///< of these
  std::uint64_t signals = 0;
  std::uint64_t nic_waits = 0;       ///< messages that had to wait for their receiver's NIC
  rank active = 0;                   ///< ranks that had called when the round took their contribution
  std::size_t memory = 0;            ///< bytes the engine held at most, the report included
  double seconds = 0;                ///< of our own time
  std::optional<path_parts> critical_path{};  ///< of the rank that finishes last, if asked for

  picoseconds last() const;
  /// The time by which a share `q` (0 … 1) of the ranks has finished.
  picoseconds quantile(double q) const;
};

/// Mean over ranks of the time between a rank's call and its result; 0 for those who call when it is there.
picoseconds mean_latency(const simulation_report& report, const start_times& calls);

}  // namespace lsched
