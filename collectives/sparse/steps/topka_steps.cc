#include "collectives/sparse/steps/topka_steps.h"

#include <cstring>

namespace lsched {

topka::topka(const sparse_problem& problem)
    : round_end(problem, most_in_union(problem, most_items(problem))),
      count_(problem.count),
      list_room_(most_items(problem)),
      result_room_(most_in_union(problem, list_room_)),
      own_(problem),
      sum_(problem.type, problem.count, nan_policy::propagate) {}

std::uint64_t topka::add(std::span<const item_list> lists, std::byte* result) {
  for (const item_list& list : lists) sum_.add(list);
  return sum_.take(0, count_, result);
}

std::uint64_t topka::select(std::byte* residual, const std::byte* gradient, top_k_hint& hint, std::byte* items) {
  const item_list own = own_.select(residual, gradient, hint);
  if (own.count != 0) std::memcpy(items, own.items, own.count * item_size(type_));
  return own.count;
}

}  // namespace lsched
