#include "collectives/sparse/steps/topka.h"

#include <algorithm>

namespace lsched {

topka::topka(const sparse_problem& problem)
    : type_(problem.type), room_(most_sent(problem)), own_(problem), all_(problem, room_) {}

std::uint64_t topka::select(std::byte* residual, const std::byte* gradient, top_k_hint& hint, std::byte* items) {
  const item_list own = own_.select(residual, gradient, hint);
  std::copy_n(own.items, own.count * item_size(type_), items);
  return own.count;
}

}  // namespace lsched
