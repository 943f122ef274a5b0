// The parameters of a sparse allreduce, and the maximum numbers of items that follow from the parameters. All
// parameters except `place` are equal on all ranks.
//
// This folder contains the computations of one rank between messages: which elements it sends, how it adds the elements
// that arrive, and what remains for later. No code in this folder sends messages. The generators in collectives/sparse
// determine the order of these steps and the messages between them. sparse.h defines items, lists and the order by
// magnitude.
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

/// Treatment of items that exceed the capacity of a region's owner.
enum class capacity_policy : std::uint8_t {
  strict,  ///< an owner has capacity for all k items of every rank, so that no item is left out
  defer    ///< an owner accepts an equal share of a rank's k items, the largest; others stay in the residual
};

/// Rule for the boundaries of regions, which follow from the selected items.
enum class boundary_rule : std::uint8_t {
  pooled,   ///< quantiles of the positions of the items of all ranks
  averaged  ///< mean of the quantiles of each rank, as published
};

/// Condition under which owners cut the sums that they keep into equal shares before the gathering (balance.h).
enum class balance_rule : std::uint8_t {
  cost,       ///< if the busiest rank then moves fewer words
  published,  ///< if an owner keeps more than four times the mean
  always,
  never
};

/// Rule for the elements that a rank sends, and for the sums that form the result.
enum class selection_rule : std::uint8_t {
  exact,  ///< the first k by magnitude, in every round
  /// As published. Rounds 1, 1 + reuse, … work as with `exact`. Rounds in between select all elements whose magnitude
  /// is not below the k-th magnitude of the last such round.
  reused
};

struct sparse_problem {
  std::uint64_t count = 0;  ///< elements of the vector, up to 2^32
  /// Maximum number of items that a rank sends, and of items in a result (selection_rule). Values above `count` mean
  /// `count`.
  std::uint64_t k = 0;
  world place{};
  dtype type = dtype::f32;  ///< floating type of gradients, items and results
  capacity_policy capacity = capacity_policy::strict;
  boundary_rule boundaries = boundary_rule::pooled;
  std::uint32_t period = 64;        ///< boundaries are recomputed in rounds 1, 1 + period, … of the state
  std::uint64_t rounds_before = 0;  ///< rounds of the image from which the state was loaded; 0: no image
  double scale = 1;                 ///< factor of gradients in the residual: 1, or the learning rate
  nan_policy nans = nan_policy::propagate;
  balance_rule balance = balance_rule::cost;
  selection_rule selection = selection_rule::exact;
  std::uint32_t reuse = 32;  ///< with `reused`: rounds from one search for thresholds to the next
  std::uint32_t bucket = 0;  ///< number of peers to which a rank sends before it waits for as many lists; 0: all

  constexpr std::uint64_t ranks() const { return static_cast<std::uint64_t>(place.size); }
};

/// Returns the error if the problem, `place` included, is not valid.
std::optional<failure> validate(const sparse_problem& problem);

/// Returns k, or `count` if that is less. With `exact`, this is the maximum number of items that a rank sends, and of
/// items in a result.
constexpr std::uint64_t most_items(const sparse_problem& problem) { return std::min(problem.k, problem.count); }

/// Returns the maximum number of items that a rank selects, which is 4 k with `reused`. If more elements reach a
/// threshold, only the largest are sent, and the others stay in the residual.
constexpr std::uint64_t most_selected(const sparse_problem& problem) {
  const std::uint64_t k = most_items(problem);
  return problem.selection == selection_rule::exact ? k : std::min(problem.count, 4 * k);
}

/// Returns the maximum number of items of a list for an owner: most_selected(problem), or ceil(k/P) with `defer`.
std::uint64_t list_room(const sparse_problem& problem);
/// Returns the maximum number of items in all lists of a rank together: most_selected(problem), or k with `defer`.
std::uint64_t sent_room(const sparse_problem& problem);
/// Returns the maximum number of items of an owner's sum: all items that the owner can receive from all ranks, itself
/// included, but at most `count`. The owner can receive P * sent_room items. With `defer`, it can receive only k items,
/// the sum of its capacities.
std::uint64_t sum_room(const sparse_problem& problem);
/// Returns the maximum number of items that all owners together keep and pass on, which is k. With reused thresholds,
/// it is the number of all items that ranks may have sent, so that no item is left out in any round.
std::uint64_t gathered_room(const sparse_problem& problem);
/// Returns the maximum number of items in the sum of all ranks' lists if no rank sends more than `sent`.
constexpr std::uint64_t most_in_union(const sparse_problem& problem, std::uint64_t sent) {
  return sent < problem.count / problem.ranks() ? sent * problem.ranks() : problem.count;
}

/// Returns the expected number of items in the sum of all ranks' lists if their indices are independent.
std::uint64_t typical_union(const sparse_problem& problem);

/// Returns the share of one rank if `items` are divided equally, rounded up.
constexpr std::uint64_t typical_share(const sparse_problem& problem, std::uint64_t items) {
  return items / problem.ranks() + (items % problem.ranks() != 0 ? 1 : 0);
}

/// A list in memory that belongs to another object.
struct item_list {
  const std::byte* items = nullptr;
  std::uint64_t count = 0;
};

}  // namespace lsched
