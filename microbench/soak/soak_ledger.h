// The contributions of a soak test, and the checks that no contribution was lost, added twice or mixed up.
//
// A contribution has `count` 64-bit integers. All arithmetic is modulo 2^64:
//
//     element 0 = 1         element 1 = rank + 1        element 2 = hash(seed, rank, call)
//     element j = a_j * element 2 + b_j * element 1 + c_j * element 0,  where the coefficients are hashes of j
//
// A sum of contributions satisfies these relations for any set of contributors. So every result can be checked element
// by element, without a list of its contributors. The total of all results must equal the total of all offers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bindings/c/lsched.h"
#include "libsched/schedule/activation.h"
#include "ops/base.h"

namespace lsched::cli {

class soak_ledger {
 public:
  static constexpr std::uint64_t k_least_count = 3;

  /// `starts` is the policy. No rank leaves the schedule before round `together` is over. With policy full, every round
  /// up to `together` must have exactly one offer of each rank. With other policies, every round up to `together` must
  /// have at least the contributors that start a round. No offer may be older than the policy allows. `complain` is
  /// called for each violation, with a text and the index of this rank's last call.
  soak_ledger(world where, std::uint64_t count, std::uint64_t seed, const activation& starts, std::uint64_t together,
              std::uint32_t fragments, std::function<void(std::uint64_t call, const std::string&)> complain);

  /// Returns the contribution of this rank's next call, valid until the next contribute(). Calls are numbered from 1.
  const std::vector<std::uint64_t>& contribute();

  /// Returns the buffer for the next call of lsched_collect.
  std::uint64_t* result();

  /// Checks the report of lsched_collect and the values in result(). `round` is the ticket's round, or 0 if the
  /// ticket's round may still be open. Returns true if the report has a new result.
  bool check(const lsched_report& report, std::uint64_t round);

  /// Checks that all offers of this rank were delivered. Must be called after the last result.
  void check_mine();

  /// Checks that the total of all results equals `of_world`, the sum of offered() over all ranks.
  void check_totals(const std::vector<std::uint64_t>& of_world);

  std::uint64_t calls() const { return calls_; }
  std::uint64_t last_round() const { return *std::ranges::max_element(last_); }
  std::uint64_t violations() const { return violations_; }
  const std::vector<std::uint64_t>& offered() const { return offered_; }
  const std::vector<std::uint64_t>& delivered() const { return delivered_; }

  /// Returns the mean number of contributors over the results of this rank's calls, or 0 before the first call.
  double mean_contributors() const;

 private:
  struct coefficients {
    std::uint64_t of_hash, of_rank, of_one;
  };
  void fill(std::vector<std::uint64_t>& elements, rank from, std::uint64_t call) const;
  void check_interval(const lsched_report& report, std::uint64_t round);
  void check_counts(const lsched_report& report);
  void check_elements(const lsched_report& report);
  void check_policy(const lsched_report& report);
  void check_full_round(const lsched_report& report);
  void expect(bool holds, const char* what, std::uint64_t got, std::uint64_t wanted);

  world where_;
  std::uint64_t seed_;
  activation starts_;
  std::uint64_t together_;
  std::function<void(std::uint64_t, const std::string&)> complain_;
  std::vector<coefficients> coefficients_;  ///< coefficients of elements 3, 4, …
  std::vector<std::uint64_t> mine_;         ///< this rank's newest contribution
  std::vector<std::uint64_t> result_;
  std::vector<std::uint64_t> offered_;    ///< sum of this rank's contributions
  std::vector<std::uint64_t> delivered_;  ///< sum of all results
  std::vector<std::uint64_t> expected_;   ///< policy full: the expected result of a round
  std::vector<std::uint64_t> one_;        ///< contribution of one rank, added to expected_
  std::uint64_t calls_ = 0;
  std::vector<std::uint64_t> last_;  ///< for each fragment: last round in the results
  std::uint64_t mine_delivered_ = 0;
  std::uint64_t results_ = 0;
  std::uint64_t contributors_ = 0;
  std::uint64_t violations_ = 0;
};

}  // namespace lsched::cli
