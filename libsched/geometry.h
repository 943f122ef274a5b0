// Integer rank arithmetic that generators and programs share.
//
// Everything here is exact for every world size that a rank can number, 1 … 2^31-1.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "ops/base.h"

namespace lsched {

/// Largest k with 2^k <= size; size >= 1.
constexpr int floor_log2(rank size) {
  return static_cast<int>(std::bit_width(static_cast<std::uint32_t>(size))) - 1;
}

/// Smallest k with 2^k >= size; size >= 1.
constexpr int ceil_log2(rank size) {
  return static_cast<int>(std::bit_width(static_cast<std::uint32_t>(size) - 1));
}

// In the largest worlds self + distance passes 2^31; neither of these does on its way.

/// The rank `distance` places after `self` on the ring of `size`; 0 <= distance < size.
constexpr rank ring_after(rank self, rank distance, rank size) {
  return self < size - distance ? self + distance : self - size + distance;
}

/// The rank `distance` places before `self` on the ring of `size`; 0 <= distance < size.
constexpr rank ring_before(rank self, rank distance, rank size) {
  return self >= distance ? self - distance : self - distance + size;
}

/// P ranks folded onto the largest power of two, so that patterns on a hypercube serve every P.
///
///   P = 7:   rank      0   1   2   3   4   5   6
///            role      P─x     P─x     P─x     c        P proxy, x its extra, c neither
///            virtual   0       1       2       3        the core: proxies and the rest, 2^levels of them
///
/// The first 2*rem ranks form pairs: the even one is a proxy, which also speaks for the odd one, its extra.
/// Invariants: size == core + rem, rem < core; a lower rank of the core has a lower virtual index, and
/// an extra's rank lies between its proxy's and the next core rank's. Whoever combines blocks of virtual
/// indices lower first therefore combines the contributions in rank order.
class fold {
 public:
  explicit constexpr fold(rank size)
      : levels_(floor_log2(size)), core_(rank{1} << levels_), rem_(size - core_) {}

  constexpr int levels() const { return levels_; }  ///< dimensions of the hypercube
  constexpr rank core() const { return core_; }     ///< 2^levels
  constexpr rank rem() const { return rem_; }       ///< number of proxies, and of extras

  constexpr bool is_proxy(rank r) const { return r < 2 * rem_ && r % 2 == 0; }
  constexpr bool is_extra(rank r) const { return r < 2 * rem_ && r % 2 != 0; }

  constexpr rank extra_of(rank proxy) const { return proxy + 1; }
  constexpr rank proxy_of(rank extra) const { return extra - 1; }

  /// Index in the hypercube of a rank that is no extra, and back.
  constexpr rank virtual_of(rank r) const { return r < 2 * rem_ ? r / 2 : r - rem_; }
  constexpr rank real_of(rank index) const { return index < rem_ ? 2 * index : index + rem_; }

  /// The rank across dimension k of the hypercube, 0 <= k < levels; `r` is no extra.
  constexpr rank across(rank r, int k) const { return real_of(virtual_of(r) ^ (rank{1} << k)); }

 private:
  int levels_;
  rank core_;
  rank rem_;
};

/// Children per level in the trees of the generators, and of their programs.
inline constexpr rank k_tree_radix = 4;

/// P ranks as a k-nomial tree with root 0, for every P: the parent of a rank is the rank with its lowest digit, in base
/// k, that is not zero set to zero.
///
///   P = 10, k = 4:   0 ── 1, 2, 3, 4, 8      4 ── 5, 6, 7      8 ── 9
///
/// Invariant: a rank and all below it are neighbours, the subtrees of its children ascending. Whoever combines what
/// its children send in their order therefore combines the contributions in rank order.
class knomial {
 public:
  constexpr knomial(rank size, rank radix) : size_(size), radix_(radix) {}

  /// Of a rank other than 0.
  constexpr rank parent_of(rank r) const {
    std::int64_t step = 1;
    while (r / step % radix_ == 0) step *= radix_;
    return static_cast<rank>(r - r / step % radix_ * step);
  }

  constexpr std::uint32_t child_count(rank r) const {
    std::uint32_t count = 0;
    for (std::int64_t step = 1; r + step < size_ && r / step % radix_ == 0; step *= radix_)
      for (std::int64_t digit = 1; digit < radix_ && r + digit * step < size_; ++digit) ++count;
    return count;
  }

  /// Ascending; i < child_count(r).
  constexpr rank child_of(rank r, std::uint32_t i) const {
    const auto digits = static_cast<std::uint32_t>(radix_) - 1;
    std::int64_t step = 1;
    for (std::uint32_t level = i / digits; level > 0; --level) step *= radix_;
    return static_cast<rank>(r + (i % digits + 1) * step);
  }

  /// Which child of its parent a rank other than 0 is.
  constexpr std::uint32_t place_of(rank r) const {
    const auto digits = static_cast<std::uint32_t>(radix_) - 1;
    std::uint32_t place = 0;
    for (; r % radix_ == 0; r /= radix_) place += digits;
    return place + static_cast<std::uint32_t>(r % radix_) - 1;
  }

  /// All of them, ascending.
  std::vector<rank> children_of(rank r) const;

  /// Edges between a rank and the root: its digits that are not zero.
  constexpr int depth_of(rank r) const {
    int digits = 0;
    for (; r > 0; r /= radix_) digits += r % radix_ != 0 ? 1 : 0;
    return digits;
  }

  /// The largest depth of any rank.
  int depth() const;

 private:
  rank size_;
  rank radix_;
};

}  // namespace lsched
