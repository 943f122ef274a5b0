// The memory that the processes of a shrink trial share (shrink_trials.h).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "ops/base.h"

namespace lsched::testing {

struct shrink_board {
  static constexpr rank k_most_ranks = 16;
  static constexpr std::size_t k_most_schedules = 2;
  static constexpr std::size_t k_most_resumed = 8;
  static constexpr std::size_t k_most_rounds = 4096;
  static constexpr std::size_t k_most_syncs = 256;

  /// A rank is `cut_off` if only the ranks on the other side of a network partition may continue.
  enum class fate : std::int32_t { training, through, dead, cut_off };

  /// The contributions of one rank in the results that another rank has received.
  struct receipts {
    std::atomic<std::int64_t> weights;  ///< sum of the weights
    std::atomic<std::int64_t>
        ordinals;  ///< sum of weight * ordinal; the first contribution of a rank has the ordinal 1
  };

  /// The contributions that one rank has received from a schedule.
  struct account {
    std::atomic<std::int64_t> offered;               ///< number of contributions that this rank has offered
    receipts totals[k_most_ranks];                   ///< from each rank, at the end
    std::atomic<std::uint64_t> sums[k_most_rounds];  ///< hash of the totals after each round; 0 if unknown
  };

  account accounts[k_most_ranks][k_most_schedules];
  std::atomic<std::int64_t> steps[k_most_ranks];  ///< latest step that each rank has begun
  std::atomic<const char*> calls[k_most_ranks];   ///< latest call of each rank; the text is a literal
  std::atomic<std::int64_t> resumed_at_ns[k_most_ranks][k_most_resumed];
  std::atomic<fate> fates[k_most_ranks];
  std::atomic<bool> may_be_cut_off[k_most_ranks];      ///< whether each rank is on a host with an outage
  std::atomic<std::int64_t> lost_at_ns[k_most_ranks];  ///< time at which each rank has died or lost its network, or 0
  std::atomic<std::int32_t> dies_in_recovery[k_most_ranks];
  std::atomic<std::int64_t> recoveries[k_most_ranks];  ///< number of recoveries that each rank has begun
  std::atomic<int> later_faults;                       ///< number of faults of hosts that have not ended
  std::atomic<std::int64_t> means[k_most_syncs];  ///< bit pattern of the first weight after each model_sync, plus 1

  static std::int64_t now_ns() {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  bool is_survivor(rank r) const { return fates[r].load() == fate::through; }
};

}  // namespace lsched::testing
