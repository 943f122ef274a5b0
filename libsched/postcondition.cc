#include "libsched/postcondition.h"

namespace lsched {
namespace {

/// A bijection of 64 bits without fixed pattern (the finaliser of SplitMix64; Steele, Lea and Flood, 2014).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

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
  return mixed(std::uint64_t{input} << 32 | static_cast<std::uint32_t>(contributor));
}

std::uint64_t joined_tree(kernel how, std::uint64_t lower, std::uint64_t higher) {
  return mixed(mixed(mixed(lower) + 1) ^ higher) + static_cast<std::uint64_t>(how);
}

}  // namespace lsched
