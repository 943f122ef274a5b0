// Integer arithmetic on ranks: division of elements, hypercubes and trees. Generators (functions that build schedules)
// and algorithm programs use these functions.
//
// All results are exact for every world size, 1 … 2^31-1.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "ops/base.h"

namespace lsched {

/// Returns the largest k with 2^k <= size; size >= 1.
constexpr int floor_log2(rank size) { return static_cast<int>(std::bit_width(static_cast<std::uint32_t>(size))) - 1; }

/// Returns the smallest k with 2^k >= size; size >= 1.
constexpr int ceil_log2(rank size) { return static_cast<int>(std::bit_width(static_cast<std::uint32_t>(size) - 1)); }

// In the largest worlds, self + distance would overflow. The expressions in ring_after() and ring_before() do not
// overflow.

/// Returns the rank `distance` places after `self` on a ring of `size` ranks; 0 <= distance < size.
constexpr rank ring_after(rank self, rank distance, rank size) {
  return self < size - distance ? self + distance : self - size + distance;
}

/// Returns the rank `distance` places before `self` on a ring of `size` ranks; 0 <= distance < size.
constexpr rank ring_before(rank self, rank distance, rank size) {
  return self >= distance ? self - distance : self - distance + size;
}

/// A division of `count` elements into `parts` consecutive runs. The elements are grouped into grains of `grain`
/// elements. Only the last grain can be incomplete. A run consists of whole grains. The lengths of any two runs differ
/// by at most one grain, and no run is longer than an earlier run.
///
///   count = 10, parts = 3, grain = 2:   0 1 2 3 │ 4 5 6 7 │ 8 9
///
/// `parts` and `grain` must be at least 1; count + grain < 2^64.
class cut {
 public:
  constexpr cut(std::uint64_t count, std::uint64_t parts, std::uint64_t grain = 1)
      : count_(count),
        grain_(grain),
        least_((count + grain - 1) / grain / parts),
        more_((count + grain - 1) / grain % parts) {}

  /// Returns the start of run i. begin(parts) is the end of the last run.
  constexpr std::uint64_t begin(std::uint64_t i) const {
    return std::min(count_, (i * least_ + std::min(i, more_)) * grain_);
  }
  constexpr std::uint64_t size(std::uint64_t i) const { return begin(i + 1) - begin(i); }

 private:
  std::uint64_t count_, grain_;
  std::uint64_t least_;  ///< minimum number of grains of a run
  std::uint64_t more_;   ///< number of runs with least_ + 1 grains
};

/// A mapping (fold) of N ranks to a core of at most N ranks, so that hypercube patterns work for every N. By default,
/// the size of the core is the largest power of two up to N.
///
///   N = 7:   rank      0   1   2   3   4   5   6
///            role      P─x     P─x     P─x     c        P: proxy, x: extra, c: other core rank
///            virtual   0       1       2       3        the core has 2^levels ranks
///
/// The first 2*rem ranks form pairs. The even rank of a pair is a proxy. The odd rank is the proxy's extra, which is
/// not in the core: the proxy contributes for both ranks. Invariants: size == core + rem, rem < core. Lower ranks of
/// the core have lower virtual indices. The rank of an extra lies between its proxy and the next rank of the core. So
/// if intervals of virtual indices are combined with the lower interval first, contributions are in rank order.
class fold {
 public:
  explicit constexpr fold(rank size) : fold(size, rank{1} << floor_log2(size)) {}
  /// `core` must satisfy size / 2 < core <= size. The core is a hypercube only if `core` is a power of two.
  constexpr fold(rank size, rank core) : levels_(floor_log2(core)), core_(core), rem_(size - core) {}

  constexpr int levels() const { return levels_; }  ///< dimensions of the hypercube
  constexpr rank core() const { return core_; }     ///< number of ranks of the core
  constexpr rank rem() const { return rem_; }       ///< number of proxies, equal to the number of extras

  constexpr bool is_proxy(rank r) const { return r < 2 * rem_ && r % 2 == 0; }
  constexpr bool is_extra(rank r) const { return r < 2 * rem_ && r % 2 != 0; }

  constexpr rank extra_of(rank proxy) const { return proxy + 1; }
  constexpr rank proxy_of(rank extra) const { return extra - 1; }

  /// virtual_of() converts a rank that is not an extra to its index in the hypercube. real_of() is the inverse.
  constexpr rank virtual_of(rank r) const { return r < 2 * rem_ ? r / 2 : r - rem_; }
  constexpr rank real_of(rank index) const { return index < rem_ ? 2 * index : index + rem_; }

  /// Returns the neighbor of `r` in dimension k of the hypercube, 0 <= k < levels. `r` must not be an extra.
  constexpr rank across(rank r, int k) const { return real_of(virtual_of(r) ^ (rank{1} << k)); }

 private:
  int levels_;
  rank core_;
  rank rem_;
};

/// Representation of the numbers 0 … core-1 by digits in base k. `core` is the largest number up to `size` that has the
/// form m * k^j with m < k. If m > 1, the highest digit has base m. size - core is less than k^j.
///
///   size = 14, k = 3:   core = 9, digits 3 3        size = 8, k = 4:   core = 8, digits 4 2
///
/// If values are combined digit by digit, beginning with the lowest digit, each step combines consecutive numbers.
class digits {
 public:
  /// `size` must be at least 1, and `radix` (k) at least 2.
  constexpr digits(rank size, rank radix) : radix_(radix) {
    for (; power_ <= size / radix; power_ *= radix) ++steps_;
    most_ = size / power_;
    if (most_ > 1) ++steps_;
  }

  constexpr rank core() const { return power_ * most_; }
  constexpr int steps() const { return steps_; }  ///< number of digits
  /// Returns the base of digit j: the number of values that the digit can have.
  constexpr rank base(int j) const { return j + 1 == steps_ && most_ > 1 ? most_ : radix_; }
  constexpr rank stride(int j) const {
    rank stride = 1;
    for (; j > 0; --j) stride *= radix_;
    return stride;
  }
  constexpr rank digit(rank number, int j) const { return number / stride(j) % base(j); }
  /// Returns the number with digit j set to `value`.
  constexpr rank with(rank number, int j, rank value) const { return number + (value - digit(number, j)) * stride(j); }

 private:
  rank radix_;
  rank power_ = 1;  ///< k^j
  rank most_ = 1;   ///< m
  int steps_ = 0;
};

/// Radix of the trees in generators and in the corresponding algorithm programs.
inline constexpr rank k_tree_radix = 4;

/// A k-nomial tree of P ranks with root 0, for any P. The parent of a rank is obtained by setting its lowest nonzero
/// digit in base k to zero.
///
///   P = 10, k = 4:   0 ── 1, 2, 3, 4, 8      4 ── 5, 6, 7      8 ── 9
///
/// Invariant: every subtree is an interval of ranks that begins at its root, and the subtrees of children are in
/// ascending order. So if the values of the children are combined in ascending order, contributions are in rank order.
class knomial {
 public:
  constexpr knomial(rank size, rank radix) : size_(size), radix_(radix) {}

  /// Returns the parent of a rank other than 0.
  constexpr rank parent_of(rank r) const {
    const std::int64_t step = step_of(r);
    return static_cast<rank>(r - r / step % radix_ * step);
  }

  /// Returns the children of a rank, ascending.
  std::vector<rank> children_of(rank r) const;

  /// Returns the end of the subtree of r, which is [r, end_of(r)).
  constexpr rank end_of(rank r) const {
    return r == 0 || r + step_of(r) >= size_ ? size_ : static_cast<rank>(r + step_of(r));
  }

  /// Returns the number of edges between a rank and the root: the number of nonzero digits of the rank in base k.
  constexpr int depth_of(rank r) const {
    int digits = 0;
    for (; r > 0; r /= radix_) digits += r % radix_ != 0 ? 1 : 0;
    return digits;
  }

  int depth() const;

 private:
  /// Returns the place value of the lowest nonzero digit of a rank other than 0.
  constexpr std::int64_t step_of(rank r) const {
    std::int64_t step = 1;
    while (r / step % radix_ == 0) step *= radix_;
    return step;
  }

  rank size_;
  rank radix_;
};

/// A k-nomial tree of P ranks around any root, in which every subtree is an interval of ranks. The root and the lower
/// ranks, numbered by their distance from the root, form a k-nomial tree. So do the root and the higher ranks.
///
///   P = 7, root 3, k = 2:   0 ── 1 ──┐   ┌── 5 ── 6
///                                2 ── 3 ── 4
///
/// A rank combines or concatenates the values of its children, beginning with the nearest child. To keep rank order,
/// put the value of a child with a lower rank in front of the result so far, and the value of a child with a higher
/// rank behind this result. The tree is never deeper than knomial(size, radix).
class spread_tree {
 public:
  constexpr spread_tree(rank size, rank root, rank radix)
      : root_(root), below_(root + 1, radix), above_(size - root, radix) {}

  /// Returns the parent of a rank other than the root.
  constexpr rank parent_of(rank r) const {
    return r < root_ ? root_ - below_.parent_of(root_ - r) : root_ + above_.parent_of(r - root_);
  }

  /// Returns the children of a rank, ordered by distance. For the root, the children with lower ranks come first, then
  /// the children with higher ranks.
  std::vector<rank> children_of(rank r) const;

  /// The subtree of r is [first_of(r), end_of(r)).
  constexpr rank first_of(rank r) const { return r <= root_ ? root_ - below_.end_of(root_ - r) + 1 : r; }
  constexpr rank end_of(rank r) const { return r >= root_ ? root_ + above_.end_of(r - root_) : r + 1; }

  constexpr int depth_of(rank r) const { return r < root_ ? below_.depth_of(root_ - r) : above_.depth_of(r - root_); }
  int depth() const;

 private:
  rank root_;
  knomial below_;  ///< tree of the root and all lower ranks, numbered by distance from the root
  knomial above_;
};

}  // namespace lsched
