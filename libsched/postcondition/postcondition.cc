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

std::uint64_t reduced_tree(kernel how, dtype type, std::uint64_t lower, std::uint64_t higher) {
  const bool commutes = row_of(how).obeys(law::commutative, type);
  return commutes && higher < lower ? joined_tree(how, higher, lower) : joined_tree(how, lower, higher);
}

std::uint64_t reduced_tree(kernel how, const fingerprint& leaves) {
  return joined_tree(how, leaves.weights[0], leaves.weights[1]);
}

bool is_flat(kernel how, dtype type) {
  return row_of(how).obeys(law::commutative, type) && row_of(how).obeys(law::associative, type);
}

std::uint64_t reduced_tree(kernel how, dtype type, std::span<const rank> ranks) {
  std::uint64_t tree = leaf_tree(ranks.front(), 0);
  fingerprint leaves = leaf_fingerprint(ranks.front(), 0);
  for (const rank r : ranks.subspan(1)) {
    leaves = joined(leaves, leaf_fingerprint(r, 0));
    tree = is_flat(how, type) ? reduced_tree(how, leaves) : reduced_tree(how, type, tree, leaf_tree(r, 0));
  }
  return tree;
}

fingerprint leaf_fingerprint(rank contributor, std::uint32_t input) {
  return {weight_of_leaf(the_weights(), leaf_tree(contributor, input)), 1};
}

std::uint64_t divided_tree(std::uint64_t sum, std::uint64_t divisor) {
  return joined_tree(kernel::divide, sum, divisor);
}

std::uint64_t adasum_expression(std::uint64_t lower, std::uint64_t higher, std::uint64_t begin, std::uint64_t end) {
  return adaptive_tree(lower, higher, products_of(lower, higher, begin, end));
}

}  // namespace lsched
