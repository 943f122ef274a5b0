// The calls of one rank in a partial allreduce in which every rank contributes a vector of ones. Each element of a
// result is the number of contributions to this element.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "microbench/harness.h"

namespace lsched::bench {

class partial_call {
 public:
  static constexpr std::uint64_t k_seed = 1;  ///< seed of the schedule's random draws

  /// This constructor is collective. `buckets` is the number of nearly equal parts of the vector. One round reduces all
  /// parts.
  partial_call(lsched_world* runtime, const std::string& policy, std::uint64_t bytes, lsched_lag lag = LSCHED_LATEST,
               std::uint32_t buckets = 1);

  /// Writes the contribution, as an application would.
  void fill();
  void offer();
  /// Collects the result of the last offer's round without a copy.
  void collect() { collect(ticket_.round); }
  /// Collects the result of a round. This rank need not have called for the round.
  void collect(std::uint64_t round, std::uint64_t patience_ns = k_patience_ns);
  void offer_and_collect() { offer(), collect(); }
  /// Offers, and collects a copy of the result.
  void offer_and_copy();
  /// Withdraws pending offers.
  void forget();
  /// Leaves the schedule, and collects the remaining rounds as one last result. No offers are pending afterwards.
  void leave_and_collect();
  /// Closes the schedule. This function is collective. Throws `failed`.
  void end() { close(std::move(schedule_)); }

  lsched_ticket ticket() const { return ticket_; }  ///< ticket of the last offer
  const lsched_report& report() const { return report_; }
  /// Returns true if every element of the last result equals the number of offers in the report. Zeroes the copy
  /// afterwards.
  bool is_right();
  /// Returns the number of contributions in the last result.
  double offers() const;
  const lsched_schedule* schedule() const { return schedule_.get(); }
  std::string algorithm() const { return algorithm_of(schedule_.get()); }

 private:
  std::vector<float> ones_, copy_;
  std::vector<const void*> given_{};  ///< buckets of ones_
  std::vector<void*> taken_{};        ///< buckets of copy_
  const void* result_ = nullptr;
  schedule_handle schedule_;
  lsched_ticket ticket_{};
  lsched_report report_{.struct_size = sizeof(lsched_report)};
  lsched_diagnostic why_ = fresh_diagnostic();
};

}  // namespace lsched::bench
