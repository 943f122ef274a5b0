// The exchange between the ranks of a new world, as the command of `lsched run --hosts` or a door (door.h) performs it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

/// Performs a sequence of exchanges. Each exchange gathers the records of all ranks. If a rank has ended or is late,
/// the current exchange and all later exchanges fail. The failure names the rank.
class world_exchange {
 public:
  using clock = std::chrono::steady_clock;

  explicit world_exchange(rank ranks)
      : records_(static_cast<std::size_t>(ranks)), has_ended_(records_.size()) {}

  /// Adds the exchange_request of a rank. Returns false if the request has a wrong size.
  bool add(rank self, std::string_view request);
  bool has_ended(rank of) const { return has_ended_[static_cast<std::size_t>(of)]; }
  /// Records that the process of a rank has ended.
  void record_end_of(rank lost) { has_ended_[static_cast<std::size_t>(lost)] = true; }

  /// Returns the answer for the ranks that have sent requests. Returns nothing if these ranks must wait. The answer
  /// consists of an exchange_answer and the bytes that follow it (offload/open/launch_exchange.h).
  std::optional<std::string> take_answer();
  /// Returns the time at which take_answer() must be called again, even if nothing else happens.
  std::optional<clock::time_point> deadline() const { return deadline_; }

 private:
  std::optional<failure> find_failure() const;

  std::vector<std::string> records_;  ///< empty: the rank has not sent a request
  std::vector<bool> has_ended_;
  std::size_t count_ = 0;  ///< number of records
  std::optional<clock::time_point> deadline_;
  std::optional<failure> failed_;
};

}  // namespace lsched
