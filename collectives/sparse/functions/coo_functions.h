// The functions that schedules of sums of users' sparse vectors call (functions.h): the steps of coo.h,
// on the memory of an instance and its user.
#pragma once

#include <algorithm>
#include <atomic>

#include "collectives/sparse/steps/coo.h"
#include "libsched/schedule/functions.h"

namespace lsched {

class coo_functions final : public functions {
 public:
  /// Throws std::bad_alloc.
  explicit coo_functions(const coo_problem& of);

  status call(std::uint32_t number, round_no round, const function_input& source, const function_input& by,
              const function_output& target) override;

  void rebound() override { steps_.forget_vector(); }

  const coo_problem& problem() const { return steps_.problem(); }

  /// There is no flaw but in the last round that was not good. Any thread, once the round has ended.
  coo_verdict verdict_of(round_no round) const;

 private:
  void sort(const function_input& number);
  void gather(const function_input& from);
  void plan(round_no round, const function_input& tallies, std::span<std::uint64_t> lengths);

  coo steps_;
  const std::uint64_t* indices_ = nullptr;  ///< the user's, in this round
  const std::byte* values_ = nullptr;
  coo_flaw flaw_ = coo_flaw::none;  ///< of what this rank has brought
  std::uint64_t items_ = 0;         ///< of this rank's sum
  std::uint64_t room_ = 0;          ///< for these
  coo_verdict verdict_{};
  std::vector<std::uint64_t> lengths_;
  std::vector<item_list> lists_;  ///< by rank, or region
  std::atomic<round_no> bad_round_{0};
  std::atomic<coo_flaw> bad_flaw_{coo_flaw::none};
  std::atomic<rank> bad_culprit_{k_no_rank};
  std::atomic<std::uint64_t> bad_items_{0};
};

}  // namespace lsched
