#include "collectives/sparse/steps/own_top_k.h"

#include <algorithm>

namespace lsched {

own_top_k::own_top_k(const sparse_problem& problem)
    : problem_(problem),
      top_k_(sparse_kernels_of(problem.type).top_k),
      room_(std::min(4 * most_sent(problem), problem.count)),
      items_(room_ * item_size(problem.type)) {}

item_list own_top_k::select(std::byte* residual, const std::byte* gradient, top_k_hint& hint) {
  const accumulation from{residual, gradient, problem_.scale, problem_.count};
  return {items_.data(), top_k_(from, most_sent(problem_), problem_.nans, items_.data(), room_, hint).count};
}

}  // namespace lsched
