// One rank's side of a partial allreduce of ones, whose results therefore count what is in them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "microbench/harness.h"

namespace lsched::bench {

class partial_call {
 public:
  static constexpr std::uint64_t k_seed = 1;  ///< of draws

  /// Collective. `buckets`: parts of the vector, as equal as can be, all in one round.
  partial_call(lsched_world* runtime, const std::string& policy, std::uint64_t bytes, lsched_lag lag = LSCHED_LATEST,
               std::uint32_t buckets = 1);

  /// Writes the contribution, as an application would.
  void fill();
  void offer();
  /// The result of the last offer's round, where it lies.
  void collect() { collect(ticket_.round); }
  /// The result of a round that this rank may not have called for.
  void collect(std::uint64_t round, std::uint64_t patience_ns = k_patience_ns);
  void offer_and_collect() { offer(), collect(); }
  /// The same, with a copy of the result.
  void offer_and_copy();
  /// Withdraws what is pending.
  void forget();
  /// Leaves. The last result is what had not been collected; nothing is pending any more.
  void leave_and_collect();
  /// Collective.
  void end() { close(std::move(schedule_)); }

  lsched_ticket ticket() const { return ticket_; }  ///< of the last offer
  const lsched_report& report() const { return report_; }
  /// Whether every element of the last result is the number of offers that the report tells of. A copy is zeros then.
  bool is_right();
  /// How many contributions are in the last result.
  double offers() const;
  const lsched_schedule* schedule() const { return schedule_.get(); }
  std::string algorithm() const { return algorithm_of(schedule_.get()); }

 private:
  std::vector<float> ones_, copy_;
  const void* result_ = nullptr;
  schedule_handle schedule_;
  lsched_ticket ticket_{};
  lsched_report report_{.struct_size = sizeof(lsched_report)};
  lsched_diagnostic why_ = fresh_diagnostic();
};

}  // namespace lsched::bench
