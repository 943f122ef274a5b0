// Statistics of one rank about the rounds of a partial schedule: contributors, times of this rank's calls, and payload
// bytes saved by null messages.
//
// Thread safety: only the engine's owner may access the statistics, except `calls`.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "libsched/partial/call_times.h"
#include "libsched/partial/contribution.h"
#include "ops/base.h"

namespace lsched {

/// A histogram of values. Bin 0 counts zeros, and bin b counts values from 2^(b-1) to 2^b - 1. The last bin also counts
/// all larger values.
struct histogram {
  static constexpr std::size_t k_bins = 40;

  std::uint64_t sum = 0;
  std::uint64_t max = 0;
  std::array<std::uint64_t, k_bins> bins{};

  void add(std::uint64_t value) {
    sum += value;
    max = std::max(max, value);
    ++bins[std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(value)), k_bins - 1)];
  }
};

struct partial_figures {
  static constexpr std::size_t k_most_contributors = 64;

  std::uint64_t rounds = 0;

  // --- contributors: these statistics are equal on all ranks ---
  std::uint64_t contributors_sum = 0;
  std::uint64_t contributors_min = 0;
  std::uint64_t contributors_max = 0;
  /// Number of rounds for each number of contributors. In a world of more than 64 ranks, the index is the contributors'
  /// share of the world in 64ths, rounded up.
  std::array<std::uint64_t, k_most_contributors + 1> contributors{};
  histogram staleness;  ///< delivered::staleness, with one value for each round to which this rank has contributed

  // --- this rank's calls, relative to the gate time: the time at which this rank's contribution was captured ---
  std::uint64_t in_time = 0;
  std::uint64_t late = 0;
  histogram early_ns;  ///< of calls before the gate: gate time minus time of the call, if both are known
  histogram late_ns;   ///< of calls after the gate: time of the call minus gate time, if both are known

  histogram completion_ns;  ///< time from the gate time to the end of the round

  // --- messages that this rank has sent, including those of open rounds ---
  std::uint64_t messages_sent = 0;
  std::uint64_t nulls_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_saved = 0;  ///< payload bytes that were not sent, because messages were null

  /// Returns the number of rounds for which this rank did not call.
  std::uint64_t uncalled() const { return rounds - in_time - late; }
};

class partial_stats {
 public:
  /// Creates statistics of the rounds after `before`.
  explicit partial_stats(round_no before = 0) : before_(before), counted_(before) {}

  call_times calls;

  void sent(std::uint64_t bytes, bool is_null) {
    ++figures_.messages_sent;
    figures_.nulls_sent += is_null ? 1 : 0;
    (is_null ? figures_.bytes_saved : figures_.bytes_sent) += bytes;
  }

  /// Records that this rank enters a round. Called just before the capture of this rank's contribution.
  void enter(round_no round, std::uint64_t now_ns);

  /// Records the end of the round passed to enter().
  void finish(const delivered& what, std::uint64_t now_ns);

  /// Returns the statistics, including calls since the last round.
  const partial_figures& figures();

 private:
  void count_late_up_to(round_no round);

  const round_no before_;  ///< number of rounds that are not in the statistics
  partial_figures figures_;
  round_no counted_;  ///< last round whose call has been counted
  round_no entered_ = 0;
  bool is_in_time_ = false;  ///< the call for round entered_ came in time
  std::array<std::uint64_t, call_times::k_kept> gates_{};
};

}  // namespace lsched
