// One rank's side of a partial allreduce of ones, whose results therefore count what is in them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "microbench/harness.h"

namespace lsched::bench {

class partial_call {
 public:
  /// Collective.
  partial_call(lsched_world* runtime, const std::string& policy, std::uint64_t bytes, lsched_lag lag = LSCHED_LATEST);

  void offer();
  /// The result of the last offer's round.
  void collect();
  /// The result of a round that this rank may not have called for.
  void collect(std::uint64_t round);
  void offer_and_collect() { offer(), collect(); }
  /// What is pending is taken back.
  void forget();
  /// Leaves. The last result is what had not been collected; nothing is pending any more.
  void leave_and_collect();
  /// Collective.
  void end() { close(std::move(schedule_)); }

  const lsched_report& report() const { return report_; }
  /// Whether every element of the last result is the number of offers that the report tells of.
  bool is_right() const;
  std::string algorithm() const { return algorithm_of(schedule_.get()); }

 private:
  std::vector<float> ones_;
  void* result_ = nullptr;  ///< where it lies
  schedule_handle schedule_;
  lsched_ticket ticket_{};
  lsched_report report_{.struct_size = sizeof(lsched_report)};
  lsched_diagnostic why_ = fresh_diagnostic();
};

}  // namespace lsched::bench
