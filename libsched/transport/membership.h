// The members of a world. A world numbers its ranks from 0; so does the transport, whose ranks are those of the launch:
// "home". Schedules and callers speak of ranks of their world, transports of home ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/base.h"

namespace lsched {

class membership {
 public:
  /// All ranks of the transport, numbered as there: the world that was opened.
  explicit membership(const world& home) : homes_(static_cast<std::size_t>(home.size)), self_(home.self) {
    std::iota(homes_.begin(), homes_.end(), 0);
  }

  /// `homes`: by rank of the world, each once. This process is `self` in it. `name` and `salt`: the same for all
  /// members, and together of no other world that shares a member with this one.
  membership(std::vector<rank> homes, rank self, std::string name, std::uint64_t salt = 0)
      : homes_(std::move(homes)), self_(self), name_(std::move(name)), salt_(salt) {}

  world place() const { return {self_, static_cast<rank>(homes_.size())}; }
  std::span<const rank> homes() const { return homes_; }

  /// For people: empty of the world that was opened; "2.1": made by commit 1 of the world that commit 2 of that one
  /// made; "2.tag7": of listed ranks with that tag.
  const std::string& name() const { return name_; }

  /// The name as a number, 0 of the world that was opened.
  std::uint32_t number() const;

  /// k_no_rank of k_no_rank.
  rank home_of(rank member) const { return member == k_no_rank ? k_no_rank : homes_[static_cast<std::size_t>(member)]; }

  /// The rank in this world of a rank of the transport; k_no_rank: it is no member.
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

/// FNV-1a.
inline std::uint32_t membership::number() const {
  if (name_.empty()) return 0;
  std::uint32_t hash = 0x811c9dc5;
  const auto add = [&](std::uint32_t byte) { hash = (hash ^ byte) * 0x01000193; };
  for (const char one : name_) add(static_cast<unsigned char>(one));
  for (int shift = 0; shift < 64; shift += 8) add(static_cast<std::uint32_t>(salt_ >> shift & 0xff));
  for (const rank one : homes_)
    for (int shift = 0; shift < 32; shift += 8) add(static_cast<std::uint32_t>(one) >> shift & 0xff);
  return std::max<std::uint32_t>(hash, 1);
}

using membership_ptr = std::shared_ptr<const membership>;

}  // namespace lsched
