// Who may initiate a round: a pure function of (seed, round, ranks still present), equal on every rank.
#pragma once

#include <cstdint>
#include <span>

#include "ops/base.h"

namespace lsched {

/// splitmix64 (Steele, Lea, Flood 2014): a counter-based hash with full avalanche.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// The rank drawn for `round` among `present` (ascending, not empty). Uniform up to 2^-32.
constexpr rank draw(std::uint64_t seed, round_no round, std::span<const rank> present) {
  const std::uint64_t high = mix(mix(seed) ^ round) >> 32;
  return present[static_cast<std::size_t>(high * present.size() >> 32)];
}

}  // namespace lsched
