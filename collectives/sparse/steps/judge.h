// What nan_policy::error makes of a round: it is refused if its result has a value that is not finite.
#pragma once

#include <optional>

#include "collectives/sparse/protocol/problem.h"

namespace lsched {

/// One rank's, of one round after the other. All ranks have the same result, bit for bit, so all come to the same
/// verdict, and no message is needed. Nothing that is not finite gets lost on the way there: it is the first in the
/// order by magnitude, and whatever is added to it, the sum is not finite either.
class result_judge {
 public:
  explicit result_judge(const sparse_problem& of)
      : type_(of.type), count_(of.count), refuses_(of.nans == nan_policy::error) {}

  /// Before a round is settled, with `count` elements of residual_of(type). False: the round is refused, and nothing
  /// that was sent is to leave the residual; but what cannot be sent as a finite item has become zero there, so that it
  /// does not make the next round non-finite. Always true under other policies. O(result), and O(count) where refused.
  bool accepts(item_list result, void* residual);

  /// Of the round that was judged last, if it was refused: the first index whose value is not finite.
  std::optional<std::uint32_t> non_finite_element() const { return non_finite_; }

 private:
  dtype type_;
  std::uint64_t count_;
  bool refuses_;
  std::optional<std::uint32_t> non_finite_{};
};

}  // namespace lsched
