// Cutting what a rank has selected into a list for every region's owner.
#pragma once

#include <span>

#include "collectives/sparse/protocol/problem.h"

namespace lsched {

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
std::uint64_t capacity_at(const sparse_problem& of, rank distance, round_no round);

/// Items of a list for an owner, at most: all that a rank selects, or with `defer` ceil(k/P).
std::uint64_t list_room(const sparse_problem& of);
/// Items of all of a rank's lists together, at most: all that it selects, or with `defer` k.
std::uint64_t sent_room(const sparse_problem& of);
/// Items of an owner's sum, at most: as many as it can receive from all ranks, itself included, or `count` if that is
/// less. With `defer` that is k, the sum of all capacities; else P sent_room.
std::uint64_t sum_room(const sparse_problem& of);
/// Items that all owners together keep and hand on, at most: k. Of reused thresholds all that ranks may have sent: then
/// nothing of it has to be left out, in whatever round.
std::uint64_t gathered_room(const sparse_problem& of);

/// Items of the list below a position, looked for from item `from` on. O(log of the answer's distance from there).
std::uint64_t items_below(dtype type, item_list list, std::uint64_t from, std::uint64_t position);

/// Writes the list for region 0's owner, for region 1's, …, one behind the other, each by index; answers how many items
/// these are together. selected: the list that place.self has, of positions in the vector; boundaries: P+1; lengths: P,
/// written. The output has room for as many items as are selected, all of which may be overwritten, and is disjoint
/// from them. With `defer`, of each region's items there are only the first of the order by magnitude, as many as its
/// owner's capacity.
std::uint64_t split(const sparse_problem& of, round_no round, item_list selected,
                    std::span<const std::uint64_t> boundaries, std::byte* items, std::span<std::uint64_t> lengths);

}  // namespace lsched
