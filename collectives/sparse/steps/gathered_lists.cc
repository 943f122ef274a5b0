#include "collectives/sparse/steps/gathered_lists.h"

#include "collectives/sparse/steps/own_top_k.h"

namespace lsched {

gathered_lists::gathered_lists(const sparse_problem& problem, std::uint64_t sent)
    : room_(most_in_union(problem, sent)),
      ranks_(static_cast<std::uint64_t>(problem.place.size)),
      settle_(sparse_kernels_of(problem.type).settle),
      sum_(problem.type, problem.count),
      update_(problem.type, problem.count, room_),
      judge_(problem) {}

/// Where contributions cancel out, the result has no item; they were in it all the same.
void gathered_lists::settle(item_list sent, item_list result, std::byte* residual, std::byte* update) {
  if (!judge_.accepts(result, residual)) sent = result = {};
  settle_(residual, sent.items, sent.count, sent.items, sent.count);
  update_.write(result, ranks_, update);
}

}  // namespace lsched
