// A membership contains the members of a world. A process has a rank in each of its worlds, counted from 0. Each
// process also has a home rank, which is its index among all ranks of the launch. Schedules and callers use ranks of
// their world, and transports use home ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/base.h"
#include "ops/hash.h"

namespace lsched {

/// The text of a PEER error whose culprit is this rank itself (docs/inside/growth.md).
inline constexpr std::string_view k_has_grown =
    "the world has grown: lsched_grow and lsched_shrink return the larger world";

class membership {
 public:
  /// Creates the membership of the first world, which has all ranks of the launch. Ranks and home ranks are equal.
  explicit membership(const world& home) : homes_(static_cast<std::size_t>(home.size)), self_(home.self) {
    std::iota(homes_.begin(), homes_.end(), 0);
  }

  /// Creates the membership of a world. `homes` must contain distinct home ranks, indexed by rank of the world. `self`
  /// is this process's rank in the world. `name` and `salt` must be equal on all members. Two worlds that share a
  /// member must differ in name or salt.
  membership(std::vector<rank> homes, rank self, std::string name, std::uint64_t salt = 0)
      : homes_(std::move(homes)), self_(self), name_(std::move(name)), salt_(salt) {}

  world place() const { return {self_, static_cast<rank>(homes_.size())}; }
  std::span<const rank> homes() const { return homes_; }

  /// Returns a readable name, which is empty for the first world. For example, commit 2 of the first world creates
  /// world "2". Commit 1 of world "2" creates world "2.1". World "2.tag7" was created from listed ranks of world "2"
  /// with tag 7.
  const std::string& name() const { return name_; }

  /// Returns a hash of name, salt and members, or 0 for the first world.
  std::uint32_t number() const;

  /// Returns the home rank of a member, and k_no_rank for k_no_rank.
  rank home_of(rank member) const { return member == k_no_rank ? k_no_rank : homes_[static_cast<std::size_t>(member)]; }

  /// Converts a home rank to the rank in this world. Returns k_no_rank if `home` is not a member.
  rank rank_of(rank home) const {
    const auto found = std::ranges::find(homes_, home);
    return found == homes_.end() ? k_no_rank : static_cast<rank>(found - homes_.begin());
  }

 private:
  std::vector<rank> homes_;
  rank self_;
  std::string name_{};
  std::uint64_t salt_ = 0;
};

inline std::uint32_t membership::number() const {
  if (name_.empty()) return 0;
  fnv_hash hash;
  hash.add(name_);
  hash.add(salt_);
  for (const rank one : homes_) hash.add(static_cast<std::uint64_t>(one));
  return std::max(static_cast<std::uint32_t>(hash.value() >> 32 ^ hash.value()), std::uint32_t{1});
}

using membership_ptr = std::shared_ptr<const membership>;

}  // namespace lsched
