// Computes the maximum traffic of one rank in a round of Ok-Topk, a sparse allreduce.
#pragma once

#include <algorithm>
#include <cstdint>

#include "collectives/sparse/steps/problem.h"

namespace lsched {

/// Returns an upper bound on the number of items that a rank sends in a round. The number of items that a rank receives
/// has the same bound. The bound holds for all gradients, with policy `defer`, an exact selection, and rule `cost` or
/// `always`. It includes the items of all messages. Let P be the number of ranks, and k the result of most_items(). The
/// bound is at most bound_items if P divides k, or if k (P-2) is at least 2 P ceil(log2 P). In all other cases the
/// shares of the ranks cannot be equal, and the bound exceeds bound_items by less than 1 + ceil(log2 P) items.
///
/// Proof: let G <= k be the number of items in the result, and f = (P-1)/P. Let m be the number of shares that a step
/// of the gathering sends. The sum of m over all steps is P-1. In the phase `split` (oktopk.cc lists the phases), every
/// rank sends at most k - ceil(k/P) items, or 1 if k = 1. Let rank A keep the largest number of items, perhaps all
/// items. It sends G - floor(G/P) items for balance and floor(m G/P) items per step (equal_shares). The sum is 2 G f:
/// in the first step m is 1, and the floor removes exactly the excess of the balance. Every other rank keeps at most
/// G/2 items. It sends these items for balance, and ceil(m G/P) items per step. After the phase `split`, a rank
/// receives its own share and all other shares. These are at most G items. All these numbers are largest for G = k.
std::uint64_t most_traffic(const sparse_problem& of);

inline std::uint64_t most_traffic(const sparse_problem& of) {
  const std::uint64_t k = most_items(of), size = static_cast<std::uint64_t>(of.place.size);
  if (size == 1 || k == 0) return 0;
  const std::uint64_t split = std::max<std::uint64_t>(k - (k + size - 1) / size, k == 1 ? 1 : 0);
  std::uint64_t keeps_most = k - k / size, keeps_less = k / 2;
  for (std::uint64_t distance = 1; distance < size; distance *= 2) {
    const std::uint64_t shares = std::min(distance, size - distance), least = k * shares / size;
    keeps_most += least;
    keeps_less += least + (k % size * shares % size != 0 ? 1 : 0);
  }
  return split + std::max({keeps_most, keeps_less, k});
}

}  // namespace lsched
