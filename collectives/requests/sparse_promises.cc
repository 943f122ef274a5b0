#include "collectives/requests/sparse_promises.h"

#include <array>

#include "collectives/activation/activation.h"

namespace lsched {

postcondition promise_of_sparse(const sparse_problem& problem) {
  postcondition promise = reduced_everywhere(problem.place.size, problem.count, kernel::fold, true);
  promise.is_synchronising = true;
  return promise;
}

postcondition promise_of_partial_sparse(const sparse_problem& problem, const activation& starts) {
  postcondition promise = promise_of_sparse(problem);
  for (promised_range& range : promise.ranges) range.merged = kernel::sum;
  promise.signals_of_one = cost_of_activation(starts, problem.place.size).least;
  return promise;
}

postcondition promise_of_coo(const coo_problem& problem) {
  const std::array<std::uint64_t, 4> outputs{problem.result_room, problem.result_room, 1, problem.count};
  postcondition promise{.is_synchronising = true};
  for (rank holder = 0; holder < problem.place.size; ++holder)
    for (std::uint32_t output = 0; output < (problem.has_dense ? 4 : 3); ++output)
      promise.ranges.push_back({.holder = holder,
                                .output = output,
                                .end = outputs[output],
                                .what = promised_content::reduced,
                                .input = 2,
                                .how = kernel::fold,
                                .is_in_rank_order = true});
  return promise;
}

}  // namespace lsched
