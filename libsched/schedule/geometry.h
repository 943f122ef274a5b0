// Integer rank arithmetic that generators and programs share.
//
// Everything here is exact for every world size that a rank can number, 1 … 2^31-1.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "ops/base.h"

namespace lsched {

/// Largest k with 2^k <= size; size >= 1.
constexpr int floor_log2(rank size) { return static_cast<int>(std::bit_width(static_cast<std::uint32_t>(size))) - 1; }

/// Smallest k with 2^k >= size; size >= 1.
constexpr int ceil_log2(rank size) { return static_cast<int>(std::bit_width(static_cast<std::uint32_t>(size) - 1)); }

// In the largest worlds self + distance passes 2^31; neither of these does on its way.

/// The rank `distance` places after `self` on the ring of `size`; 0 <= distance < size.
constexpr rank ring_after(rank self, rank distance, rank size) {
  return self < size - distance ? self + distance : self - size + distance;
}

/// The rank `distance` places before `self` on the ring of `size`; 0 <= distance < size.
constexpr rank ring_before(rank self, rank distance, rank size) {
  return self >= distance ? self - distance : self - distance + size;
}

/// `count` things in `parts` runs, one after the other, of whole grains each (the last grain may be a part of one). No
/// run is more than a grain longer than another, and none is longer than one before it.
///
///   count = 10, parts = 3, grain = 2:   0 1 2 3 │ 4 5 6 7 │ 8 9
///
/// parts and grain >= 1; count + grain < 2^64.
class cut {
 public:
  constexpr cut(std::uint64_t count, std::uint64_t parts, std::uint64_t grain = 1)
      : count_(count),
        grain_(grain),
        least_((count + grain - 1) / grain / parts),
        more_((count + grain - 1) / grain % parts) {}

  /// Where run i begins; i = parts: where the last one ends.
  constexpr std::uint64_t begin(std::uint64_t i) const {
    return std::min(count_, (i * least_ + std::min(i, more_)) * grain_);
  }
  constexpr std::uint64_t size(std::uint64_t i) const { return begin(i + 1) - begin(i); }

 private:
  std::uint64_t count_, grain_;
  std::uint64_t least_;  ///< grains of every run
  std::uint64_t more_;   ///< runs that have one more
};

/// P ranks folded onto a core of fewer, the largest power of two if nothing else is said, so that patterns on a
/// hypercube serve every P.
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
  explicit constexpr fold(rank size) : fold(size, rank{1} << floor_log2(size)) {}
  /// size / 2 < core <= size. The core is a hypercube only if it is a power of two.
  constexpr fold(rank size, rank core) : levels_(floor_log2(core)), core_(core), rem_(size - core) {}

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

/// Numbers 0 … core-1 as digits in base k, the highest in a smaller base perhaps, where core is the largest such number
/// up to `size`: m * k^j with m < k. What a fold onto the core leaves over is less than k^j.
///
///   size = 14, k = 3:   core = 9, digits 3 3        size = 8, k = 4:   core = 8, digits 4 2
///
/// Whoever combines digit by digit, the lowest first, combines neighbouring numbers.
class digits {
 public:
  /// size >= 1, radix >= 2.
  constexpr digits(rank size, rank radix) : radix_(radix) {
    for (; power_ <= size / radix; power_ *= radix) ++steps_;
    most_ = size / power_;
    if (most_ > 1) ++steps_;
  }

  constexpr rank core() const { return power_ * most_; }
  constexpr int steps() const { return steps_; }  ///< digits
  /// How many values digit j has.
  constexpr rank base(int j) const { return j + 1 == steps_ && most_ > 1 ? most_ : radix_; }
  constexpr rank stride(int j) const {
    rank stride = 1;
    for (; j > 0; --j) stride *= radix_;
    return stride;
  }
  constexpr rank digit(rank number, int j) const { return number / stride(j) % base(j); }
  /// The number with digit j set to `value`.
  constexpr rank with(rank number, int j, rank value) const { return number + (value - digit(number, j)) * stride(j); }

 private:
  rank radix_;
  rank power_ = 1;  ///< k^j
  rank most_ = 1;   ///< m
  int steps_ = 0;
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
    const std::int64_t step = step_of(r);
    return static_cast<rank>(r - r / step % radix_ * step);
  }

  /// Ascending.
  std::vector<rank> children_of(rank r) const;

  /// One past the last rank of the subtree of r, which begins at r.
  constexpr rank end_of(rank r) const {
    return r == 0 || r + step_of(r) >= size_ ? size_ : static_cast<rank>(r + step_of(r));
  }

  /// Edges between a rank and the root: its digits that are not zero.
  constexpr int depth_of(rank r) const {
    int digits = 0;
    for (; r > 0; r /= radix_) digits += r % radix_ != 0 ? 1 : 0;
    return digits;
  }

  /// The largest depth of any rank.
  int depth() const;

 private:
  /// The value of the lowest digit, of a rank other than 0, that is not zero.
  constexpr std::int64_t step_of(rank r) const {
    std::int64_t step = 1;
    while (r / step % radix_ == 0) step *= radix_;
    return step;
  }

  rank size_;
  rank radix_;
};

/// P ranks as a k-nomial tree around any root in which every subtree is an interval of ranks: the ranks below the root
/// and those above it are a tree each, by their distance from the root.
///
///   P = 7, root 3, k = 2:   0 ── 1 ──┐   ┌── 5 ── 6
///                                2 ── 3 ── 4
///
/// Whoever combines, or puts side by side, what its children send, nearest first, keeps the order of ranks: a child
/// below comes before all there is so far, a child above after it. Never deeper than knomial(size, radix).
class spread_tree {
 public:
  constexpr spread_tree(rank size, rank root, rank radix)
      : root_(root), below_(root + 1, radix), above_(size - root, radix) {}

  /// Of a rank other than the root.
  constexpr rank parent_of(rank r) const {
    return r < root_ ? root_ - below_.parent_of(root_ - r) : root_ + above_.parent_of(r - root_);
  }

  /// All of them, those on either side by their distance; the root's below it first.
  std::vector<rank> children_of(rank r) const;

  /// The subtree of r is [first_of(r), end_of(r)).
  constexpr rank first_of(rank r) const { return r <= root_ ? root_ - below_.end_of(root_ - r) + 1 : r; }
  constexpr rank end_of(rank r) const { return r >= root_ ? root_ + above_.end_of(r - root_) : r + 1; }

  /// Edges between a rank and the root.
  constexpr int depth_of(rank r) const { return r < root_ ? below_.depth_of(root_ - r) : above_.depth_of(r - root_); }
  /// The largest depth of any rank.
  int depth() const;

 private:
  rank root_;
  knomial below_;  ///< of distances from the root, 0 being the root
  knomial above_;
};

}  // namespace lsched
