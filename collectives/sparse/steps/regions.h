// Regions of the vector, one for each rank, which owns it: their boundaries, and the lists that a rank sends to owners.
//
// Regions have equal shares of what is selected: boundaries are quantiles of the positions of items. Ranks find them
// together, by an allreduce of a few numbers: each puts its own in, and all of them read the same ones out of the sums.
// There are two kinds of these numbers.
//
//   positions   every so many rounds (`period`), a look: bins over the vector
//   drift       in every round, since what is selected drifts: each rank counts its items in a few parts of each
//               region, and by the sums the boundaries become quantiles again. Fewer words than a look, but a look
//               has to go before: drift finds only what differs from part to part
//
// Parts are dealt out by width: a region of so few elements that each is a part has no more, and what it spares, wider
// ones have. In a wide one most parts are equal; up to half of them, or 16, divide the two outermost of these, and get
// shorter towards the ends: what is dense may end just behind a boundary, and be part of a region that is empty
// otherwise.
#pragma once

#include <span>
#include <vector>

#include "collectives/sparse/steps/problem.h"

namespace lsched {

// ---- positions

/// How many numbers of positions, u64, there are.
///
/// `pooled`: bins of equal width over the vector, the last one perhaps narrower: about 256 for each region, but 16384
/// at most. No bin is empty of positions, and there are none if the vector has none.
/// `averaged`: P; the sums of the P-1 positions of ranks' own quantiles, and how many ranks had any.
std::uint64_t position_bins(const sparse_problem& problem);

/// Writes a rank's own numbers: position_bins of them. selected: by position in the vector. O(selected + bins).
void count_positions(const sparse_problem& problem, item_list selected, std::span<std::uint64_t> bins);

/// Writes the P+1 boundaries that follow from all ranks' sums: ascending, 0 first and `count` last, two equal ones
/// being an empty region. Within a bin, items are taken to be spread evenly. Equal regions if nobody has an item.
/// O(bins + P).
void place_boundaries(const sparse_problem& problem, std::span<const std::uint64_t> sums,
                      std::span<std::uint64_t> boundaries);

// ---- drift

/// How many counters, u64: 16 for each region, but 8192 at most, or 1 for each if there are more regions than that;
/// none if the rule is `averaged`.
std::uint64_t drift_bins(const sparse_problem& problem);

/// The parts of all regions, in their order. One thread at a time.
class region_parts {
 public:
  /// Allocates 8 bytes for each counter. There are none until the first divide.
  explicit region_parts(const sparse_problem& problem);

  /// Divides the regions between these boundaries: P+1. O(P log counters + counters). Does nothing if there are no
  /// counters.
  void divide(std::span<const std::uint64_t> boundaries);

  /// Writes how many items there are in each part: drift_bins numbers, the last of them zeros if there are less parts.
  /// selected: by position in the vector. O(selected + counters).
  void count(item_list selected, std::span<std::uint64_t> counters) const;

  /// Writes the P+1 boundaries that follow from all ranks' sums: ascending, 0 first and `count` last. Within a part,
  /// items are taken to be spread evenly. If there are no counters, or nobody has an item, `boundaries` stay as they
  /// are. O(counters + P).
  void move(std::span<const std::uint64_t> sums, std::span<std::uint64_t> boundaries) const;

 private:
  dtype type_;
  std::vector<std::uint64_t> ends_;  ///< of parts; one begins where the one before ends. Beyond the last: its end
  std::size_t parts_ = 0;
};

// ---- lists for owners

/// Items that a rank may send to the rank `distance` places behind it on the ring, with policy `defer`: the k in P
/// shares of floor(k/P), and one more for some. The rank itself (distance 0) is the first of these, the others take
/// turns from round to round, so that every pair gets one sooner or later, even if k < P.
///
/// All that a rank sends to others is k - ceil(k/P) items, hence at most k (P-1)/P. What an owner receives from others
/// is the same sum over the distances 1 … P-1, since a capacity depends on distance and round only: so that is at most
/// k (P-1)/P as well. k = 1 is the exception: the one item's turn goes around the whole ring, itself included, or
/// nobody would ever send anything; then 1 item is sent and received in the rounds that are not the rank's own turn.
///
/// The same on all ranks, if these agree about the round.
std::uint64_t capacity_at(const sparse_problem& problem, rank distance, round_no round);

/// Items of the list below a position, looked for from item `from` on. O(log of the answer's distance from there).
std::uint64_t items_below(dtype type, item_list list, std::uint64_t from, std::uint64_t position);

/// Writes the list for region 0's owner, for region 1's, …, one behind the other, each by index; answers how many items
/// these are together. selected: the list that place.self has, of positions in the vector; boundaries: P+1; lengths: P,
/// written. The output has room for as many items as are selected, all of which may be overwritten, and is disjoint
/// from them. With `defer`, of each region's items there are only the first of the order by magnitude, as many as its
/// owner's capacity.
std::uint64_t split(const sparse_problem& problem, round_no round, item_list selected,
                    std::span<const std::uint64_t> boundaries, std::byte* items, std::span<std::uint64_t> lengths);

}  // namespace lsched
