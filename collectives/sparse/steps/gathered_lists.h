// What TopkA and Gaussiank do with the lists of all ranks, once every rank has them.
#pragma once

#include "collectives/sparse/steps/dense_update.h"
#include "collectives/sparse/steps/judge.h"
#include "collectives/sparse/steps/list_sum.h"
#include "ops/sparse/sparse.h"

namespace lsched {

/// Allocates when made: a vector of sums. All that was sent is in the result.
class gathered_lists {
 public:
  /// No rank sends more than `sent` items.
  gathered_lists(const sparse_problem& problem, std::uint64_t sent);

  /// Items that a result has at most.
  std::uint64_t room() const { return room_; }

  /// The sum of all ranks' lists, added in rank order; answers its length. The lists' indices are those of the vector.
  std::uint64_t add(std::span<const item_list> lists, std::byte* result) { return sum_.add(lists, result); }

  /// Takes what this rank sent from its residual, and writes result / P to `update`, of the items' type, which is zero
  /// elsewhere, or nullptr. Of a round that is refused (judge.h) the update is zero, and nothing was sent.
  void settle(item_list sent, item_list result, std::byte* residual, std::byte* update);
  /// As dense_update::forget.
  void forget_update() { update_.forget(); }
  /// Of the last round that was settled.
  std::optional<std::uint32_t> non_finite_element() const { return judge_.non_finite_element(); }

 private:
  std::uint64_t room_;
  std::uint64_t ranks_;
  decltype(sparse_kernels::settle) settle_;
  list_sum sum_;
  dense_update update_;
  result_judge judge_;
};

}  // namespace lsched
