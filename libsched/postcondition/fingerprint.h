// Fingerprints of multisets: how many there are in one, and two sums modulo 2^61-1 of their weights.
//
// Weights are random and drawn by each process anew (weights.h), so nothing that was written before can have
// been made to fit them. The number does not wrap around: what was once more than it can say stays more. So a multiset
// that has too many is told exactly, and one that has as many as it should, but not the right ones, is overlooked only
// if both sums of weights agree by chance.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

#include "libsched/postcondition/modular.h"
#include "ops/saturating.h"

namespace lsched {

struct fingerprint {
  std::array<std::uint64_t, 2> weights{};  ///< modulo 2^61-1
  std::uint64_t size = 0;                  ///< the largest number: that many, or more
  friend constexpr auto operator<=>(const fingerprint&, const fingerprint&) = default;
};

/// Of all that is in either.
constexpr fingerprint joined(const fingerprint& x, const fingerprint& y) {
  return {{modular_sum(x.weights[0], y.weights[0]), modular_sum(x.weights[1], y.weights[1])},
          saturating_sum(x.size, y.size)};
}

}  // namespace lsched
