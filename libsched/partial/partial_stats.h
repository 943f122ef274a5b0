// What one rank has seen of a partial schedule's rounds: who was in them, when its own calls came, and what null has
// saved.
//
// Belongs to the engine's owner, but for the times of calls. It has no clock: whoever writes brings the time.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "libsched/partial/call_times.h"
#include "libsched/partial/contribution.h"
#include "ops/base.h"

namespace lsched {

/// How often values of each size came. Bin b holds the values of b binary digits: bin 0 zeros, bin b those from 2^(b-1)
/// to 2^b - 1, the last one also all that are larger.
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

/// Of the rounds that are over.
struct partial_figures {
  static constexpr std::size_t k_most_contributors = 64;

  std::uint64_t rounds = 0;

  // --- contributors: the same on every rank ---
  std::uint64_t contributors_sum = 0;
  std::uint64_t contributors_min = 0;
  std::uint64_t contributors_max = 0;
  /// Rounds by contributors; in a world of more than 64 ranks in 64ths of it, rounded up.
  std::array<std::uint64_t, k_most_contributors + 1> contributors{};
  histogram staleness;  ///< of this rank's contributions, one a round

  // --- this rank's calls, against its gate: the moment its contribution was captured ---
  std::uint64_t in_time = 0;
  std::uint64_t late = 0;
  histogram early_ns;  ///< of those in time, as far as their times are still known
  histogram late_ns;   ///< likewise

  histogram completion_ns;  ///< from the gate to the end of the round

  // --- messages this rank has sent, those of open rounds too ---
  std::uint64_t messages_sent = 0;
  std::uint64_t nulls_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_saved = 0;  ///< that null messages would have had

  /// Rounds that this rank has not called for.
  std::uint64_t uncalled() const { return rounds - in_time - late; }
};

class partial_stats {
 public:
  explicit partial_stats(rank ranks) : ranks_(static_cast<std::uint64_t>(ranks)) {}

  call_times calls;

  void sent(std::uint64_t bytes, bool is_null) {
    ++figures_.messages_sent;
    figures_.nulls_sent += is_null ? 1 : 0;
    (is_null ? figures_.bytes_saved : figures_.bytes_sent) += bytes;
  }

  /// This rank enters a round: its contribution is captured next.
  void enter(round_no round, std::uint64_t now_ns);

  /// The round it has entered is over.
  void finish(const delivered& what, std::uint64_t now_ns);

  /// With the calls that have come since the last round.
  const partial_figures& figures();

 private:
  void count_late_up_to(round_no round);

  const std::uint64_t ranks_;
  partial_figures figures_;
  round_no counted_ = 0;  ///< all calls for rounds up to this one are
  round_no entered_ = 0;
  bool is_in_time_ = false;  ///< the call for the round entered
  std::array<std::uint64_t, call_times::k_kept> gates_{};
};

}  // namespace lsched
