// What a sparse allreduce is asked for, as all ranks say it; and what a rank has sent and received for it.
//
// This folder is what one rank computes between two messages: which elements it sends, how it adds what arrives, what
// remains for later. It sends nothing; the generators in collectives/sparse say which of its steps come when, and what
// travels between them. Items, lists, and their order by magnitude are those of sparse.h.
//
// (Li and Hoefler, Near-Optimal Sparse Allreduce for Distributed Deep Learning, PPoPP 2022.)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ops/sparse/sparse.h"
#include "ops/status.h"

namespace lsched {

/// What becomes of items for which a region's owner has no room.
enum class capacity_policy : std::uint8_t {
  strict,  ///< an owner has room for all k items of every rank: nothing is left out
  defer    ///< a rank sends the owners k items in equal shares, the largest first; the rest stays in its residual
};

/// How the regions' boundaries follow from what ranks have selected.
enum class boundary_rule : std::uint8_t {
  pooled,   ///< quantiles of the positions of all ranks' items together
  averaged  ///< the mean of every rank's own quantiles, as published
};

/// When owners cut what they keep into equal shares before all of it is gathered (balance.h).
enum class balance_rule : std::uint8_t {
  cost,       ///< where that is fewer words for the rank that has most
  published,  ///< where one keeps more than four times the mean
  always,
  never
};

/// Which elements a rank sends, and which sums are the result.
enum class selection_rule : std::uint8_t {
  exact,  ///< the first k by magnitude, in every round
  reused  ///< as published: these in rounds 1, 1 + reuse, …, and in between all whose magnitude is not below the k-th
          ///< of the last such round
};

struct sparse_problem {
  std::uint64_t count = 0;  ///< elements of the vector, up to 2^32
  std::uint64_t k = 0;      ///< items that a rank sends, and that a result has, at most; beyond count is count. See
                            ///< selection_rule
  world place{};
  dtype type = dtype::f32;  ///< of gradients, items and results; floating
  capacity_policy capacity = capacity_policy::strict;
  boundary_rule boundaries = boundary_rule::pooled;
  std::uint32_t period = 64;  ///< rounds between two looks at the boundaries: 1, 1 + period, …, of those of the state
  std::uint64_t rounds_before = 0;  ///< rounds of the image that the state was loaded from; 0: none
  double scale = 1;                 ///< of gradients as they enter the residual: 1, or the learning rate
  nan_policy nans = nan_policy::propagate;
  balance_rule balance = balance_rule::cost;
  selection_rule selection = selection_rule::exact;
  std::uint32_t reuse = 32;  ///< of `reused`: rounds between two looks for thresholds
  std::uint32_t bucket = 0;  ///< peers that a rank sends its lists to before it has those of as many; 0: all of them

  constexpr std::uint64_t ranks() const { return static_cast<std::uint64_t>(place.size); }
};

/// The error if the problem, or this rank's place in it, is not valid.
std::optional<failure> validate(const sparse_problem& problem);

/// k, or all there are. With `exact`, items that a rank sends, and that a result has, at most.
constexpr std::uint64_t most_items(const sparse_problem& problem) { return std::min(problem.k, problem.count); }

/// Items that a rank selects, at most. Of `reused` 4 k: of more that a threshold selects, the first of the order by
/// magnitude are, and the rest stays in the residual.
constexpr std::uint64_t most_selected(const sparse_problem& problem) {
  const std::uint64_t k = most_items(problem);
  return problem.selection == selection_rule::exact ? k : std::min(problem.count, 4 * k);
}

/// Items of a list for an owner, at most: all that a rank selects, or with `defer` ceil(k/P).
std::uint64_t list_room(const sparse_problem& problem);
/// Items of all of a rank's lists together, at most: all that it selects, or with `defer` k.
std::uint64_t sent_room(const sparse_problem& problem);
/// Items of an owner's sum, at most: as many as it can receive from all ranks, itself included, or `count` if that is
/// less. With `defer` that is k, the sum of all capacities; else P sent_room.
std::uint64_t sum_room(const sparse_problem& problem);
/// Items that all owners together keep and hand on, at most: k. Of reused thresholds all that ranks may have sent: then
/// nothing of it has to be left out, in whatever round.
std::uint64_t gathered_room(const sparse_problem& problem);
/// Items of the sum of all ranks' lists, at most, if nobody sends more than `sent`.
constexpr std::uint64_t most_in_union(const sparse_problem& problem, std::uint64_t sent) {
  return sent < problem.count / problem.ranks() ? sent * problem.ranks() : problem.count;
}

/// Items of the sum of all ranks' lists, if their indices have nothing to do with each other.
std::uint64_t typical_union(const sparse_problem& problem);

/// Of so many items, what one of the ranks has if all have as much; of some, at least one.
constexpr std::uint64_t typical_share(const sparse_problem& problem, std::uint64_t items) {
  return items / problem.ranks() + (items % problem.ranks() != 0 ? 1 : 0);
}

/// A list that lies somewhere.
struct item_list {
  const std::byte* items = nullptr;
  std::uint64_t count = 0;
};

}  // namespace lsched
