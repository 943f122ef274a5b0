// What a soak offers, and how it knows that nothing was lost, counted twice or mixed up.
//
// A contribution of `count` 64-bit integers, arithmetic modulo 2^64:
//
//     element 0 = 1         element 1 = rank + 1        element 2 = hash(seed, rank, call)
//     element j = a_j * element 2 + b_j * element 1 + c_j * element 0,  the coefficients from a hash of j
//
// Sums of contributions keep these relations, whoever is in them. So every result can be checked by itself,
// element by element, without knowing who contributed; and the totals of all results must be the totals of
// all offers.
#pragma once

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

  /// `starts`: with policy full every round has exactly one offer of each rank; with others as many ranks as it takes
  /// are in every round up to `together`, before which nobody leaves, and offers are not older than it allows.
  /// `complain` is called with each violation, and the call it was found in.
  soak_ledger(world where, std::uint64_t count, std::uint64_t seed, const activation& starts, std::uint64_t together,
              std::function<void(std::uint64_t call, const std::string&)> complain);

  /// The contribution of my next call, valid until the one after. Calls are numbered from 1.
  const std::vector<std::uint64_t>& contribute();

  /// Where the next collect is to write.
  std::uint64_t* result();

  /// Judges what a collect has delivered into result(). `round` is the ticket's, or 0 for one that may still
  /// be open.
  void check(const lsched_report& report, std::uint64_t round);

  /// After the last result: whether all my offers came back to me.
  void check_mine();

  /// Whether the results are what the world has offered; the argument is the sum of every rank's offered().
  void check_totals(const std::vector<std::uint64_t>& of_world);

  std::uint64_t calls() const { return calls_; }
  std::uint64_t last_round() const { return last_; }
  std::uint64_t violations() const { return violations_; }
  const std::vector<std::uint64_t>& offered() const { return offered_; }
  const std::vector<std::uint64_t>& delivered() const { return delivered_; }

  /// Mean number of contributors over the results of my calls; 0 before the first.
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
  std::vector<coefficients> coefficients_;  ///< of the elements from 3 on
  std::vector<std::uint64_t> mine_;         ///< my newest contribution
  std::vector<std::uint64_t> result_;
  std::vector<std::uint64_t> offered_;    ///< sum of my contributions
  std::vector<std::uint64_t> delivered_;  ///< sum of all results
  std::vector<std::uint64_t> expected_;   ///< policy full: what a round must give
  std::vector<std::uint64_t> one_;        ///< of one rank, for the above
  std::uint64_t calls_ = 0;
  std::uint64_t last_ = 0;
  std::uint64_t mine_delivered_ = 0;
  std::uint64_t results_ = 0;
  std::uint64_t contributors_ = 0;
  std::uint64_t violations_ = 0;
};

}  // namespace lsched::cli
