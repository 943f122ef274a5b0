// What no round of Ok-Topk can exceed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "collectives/sparse/steps/problem.h"

namespace lsched {

/// What a rank sends, or receives, in a round, at most, whatever the gradients are, with policy `defer`, an exact
/// selection, and rule `cost` or `always`: in items, exactly as messages go. It is never above bound_items where P
/// divides k, or where k (P-2) is at least 2 P ceil(log2 P); else shares cannot be equal, and some items go around more
/// often than others. Less than 1 + ceil(log2 P) items are added by that.
///
/// Let G <= k be the items of the result, f = (P-1)/P, m the numbers of shares in a step of the gathering; these add up
/// to P-1. All send at most k - ceil(k/P) in the split, 1 if k = 1. Who keeps most, perhaps all, sends G - floor(G/P)
/// for balance and floor(m G/P) a step (equal_shares): 2 G f together, because m is 1 in the first step and what the
/// floor takes there is what the balance has too much. Others keep at most G/2, and send that and ceil(m G/P) a step.
/// What a rank receives after the split is its share and all others, at most G. None of it falls as G grows to k.
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
