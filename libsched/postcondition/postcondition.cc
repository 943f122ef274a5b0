#include "libsched/postcondition/postcondition.h"

#include "libsched/postcondition/fingerprint.h"
#include "libsched/schedule/draw.h"

namespace lsched {

postcondition reduced_everywhere(rank size, std::uint64_t count, kernel how, bool is_in_rank_order) {
  postcondition promise;
  for (rank holder = 0; holder < size; ++holder)
    promise.ranges.push_back({.holder = holder,
                              .end = count,
                              .what = promised_content::reduced,
                              .how = how,
                              .is_in_rank_order = is_in_rank_order});
  return promise;
}

std::uint64_t leaf_tree(rank contributor, std::uint32_t input) {
  return mix((std::uint64_t{input} << 32 | static_cast<std::uint32_t>(contributor)) ^ the_weights().tree_key);
}

std::uint64_t joined_tree(kernel how, std::uint64_t lower, std::uint64_t higher) {
  return mix(mix(mix(lower) + 1) ^ higher) + static_cast<std::uint64_t>(how);
}

std::uint64_t divided_tree(std::uint64_t sum, std::uint64_t divisor) {
  return joined_tree(kernel::divide, sum, divisor);
}

std::uint64_t adasum_expression(std::uint64_t lower, std::uint64_t higher, std::uint64_t begin, std::uint64_t end) {
  return adaptive_tree(lower, higher, products_of(lower, higher, begin, end));
}

}  // namespace lsched
