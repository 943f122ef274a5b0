// The first step of most rivals: a gradient joins the residual, and the k largest of it are what a rank has to send.
#pragma once

#include <vector>

#include "collectives/sparse/protocol/problem.h"
#include "ops/sparse/sparse.h"

namespace lsched {

/// How many items a rank sends at most.
constexpr std::uint64_t most_sent(const sparse_problem& problem) {
  return problem.k < problem.count ? problem.k : problem.count;
}

/// How many items the sum of all ranks' lists has at most, if nobody sends more than `sent`.
constexpr std::uint64_t most_in_union(const sparse_problem& problem, std::uint64_t sent) {
  const auto ranks = static_cast<std::uint64_t>(problem.place.size);
  return sent < problem.count / ranks ? sent * ranks : problem.count;
}

/// Room to work in, which a list of exactly k does not have. Allocates when made.
class own_top_k {
 public:
  explicit own_top_k(const sparse_problem& problem);

  /// residual += scale * gradient, then the first k items of the order by magnitude, by index: here until the next
  /// call. residual: count elements of residual_of(type); gradient: count elements, or nullptr for none. The residual
  /// still holds what is in the list.
  item_list select(std::byte* residual, const std::byte* gradient, top_k_hint& hint);

 private:
  sparse_problem problem_;
  decltype(sparse_kernels::top_k) top_k_;
  std::uint64_t room_;
  std::vector<std::byte> items_;
};

}  // namespace lsched
