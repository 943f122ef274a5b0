// Random draws of the ranks whose calls may start a round. The result depends only on the seed, the round and the
// present ranks (those that have not left the world), so all ranks draw the same ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/base.h"

namespace lsched {

/// splitmix64 (Steele, Lea, Flood 2014): a counter-based hash with full avalanche.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Converts 64 random bits to a number below `limit`. The distribution is uniform, except for a deviation of about
/// 2^-32.
constexpr std::size_t below(std::uint64_t bits, std::size_t limit) {
  return static_cast<std::size_t>((bits >> 32) * limit >> 32);
}

/// Draws a rank for `round` among `present`, which must be ascending and not empty.
constexpr rank draw(std::uint64_t seed, round_no round, std::span<const rank> present) {
  return present[below(mix(mix(seed) ^ round), present.size())];
}

/// A random set of ranks for a round. All sets of the same size have the same probability (Floyd's sampling; Bentley
/// and Floyd, CACM 1987). If the set has one rank, it is the rank that the free function draw() returns.
class drawn_ranks {
 public:
  explicit drawn_ranks(rank size = 0) : is_in_(static_cast<std::size_t>(size)) {}

  /// Draws `number` ranks from `present`. If `present` has fewer ranks, draws all of them.
  void draw(std::uint64_t seed, round_no round, std::span<const rank> present, rank number) {
    std::fill(is_in_.begin(), is_in_.end(), false);
    const std::size_t wanted = std::min(present.size(), static_cast<std::size_t>(number));
    std::uint64_t bits = mix(mix(seed) ^ round);
    for (std::size_t last = present.size() - wanted; last < present.size(); ++last, bits = mix(bits)) {
      const rank one = present[below(bits, last + 1)];
      is_in_[index(is_in_[index(one)] ? present[last] : one)] = true;
    }
  }

  void set_only(rank one) {
    if (is_in_.size() <= index(one)) is_in_.resize(index(one) + 1);
    std::fill(is_in_.begin(), is_in_.end(), false);
    is_in_[index(one)] = true;
  }

  bool holds(rank r) const { return index(r) < is_in_.size() && is_in_[index(r)]; }

 private:
  static std::size_t index(rank r) { return static_cast<std::size_t>(r); }
  std::vector<bool> is_in_;  ///< by rank: true if the rank is in the set
};

}  // namespace lsched
