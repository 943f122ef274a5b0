// The parameters of a sparse allreduce, and the capacities that follow from them. All parameters except `place` must be
// equal on all ranks.
//
// This folder contains the computations of one rank between messages: the selection of elements to send, the sum of
// received elements, and the residual. The generators in collectives/sparse determine the order of these steps and the
// messages between them. ops/sparse/sparse.h defines items, lists and the order by magnitude.
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
  strict,  ///< an owner has capacity for all k items of every rank, so no item is left out
  defer    ///< an owner accepts only about k / P items of each rank, the largest; others stay in the residual
};

/// Rule for the computation of region boundaries from the selected items.
enum class boundary_rule : std::uint8_t {
  pooled,   ///< quantiles of the positions of all ranks' items
  averaged  ///< mean over all ranks of the ranks' own quantiles, as in the paper
};

/// Decides when the kept items of all owners are redistributed into shares of equal length before the gathering
/// (balance.h).
enum class balance_rule : std::uint8_t {
  cost,       ///< if equal shares reduce the traffic of the busiest rank
  published,  ///< if an owner keeps more than four times the mean, as in the paper
  always,
  never
};

/// Rule for the elements that a rank sends, and for the sums that form the result.
enum class selection_rule : std::uint8_t {
  exact,  ///< the k elements with the largest magnitudes, in every round
  /// As in the paper: rounds 1, 1 + reuse, … work as with `exact`, and find the k-th magnitude. All other rounds select
  /// the elements whose magnitude is not below the k-th magnitude that was found last.
  reused
};

struct sparse_problem {
  std::uint64_t count = 0;  ///< number of elements of the vector, at most 2^32
  /// Maximum number of items that a rank sends, and maximum number of items of a result (selection_rule). A value above
  /// `count` means `count`.
  std::uint64_t k = 0;
  world place{};
  dtype type = dtype::f32;  ///< floating type of gradients, items and results
  capacity_policy capacity = capacity_policy::strict;
  boundary_rule boundaries = boundary_rule::pooled;
  std::uint32_t period = 64;        ///< boundaries are recomputed in rounds 1, 1 + period, … of the state
  std::uint64_t rounds_before = 0;  ///< number of rounds before the loaded image of the state was saved; 0: no image
  double scale = 1;                 ///< factor of gradients in the residual: 1, or the learning rate
  nan_policy nans = nan_policy::propagate;
  balance_rule balance = balance_rule::cost;
  selection_rule selection = selection_rule::exact;
  std::uint32_t reuse = 32;  ///< with `reused`: number of rounds from one search for thresholds to the next
  std::uint32_t bucket = 0;  ///< number of lists that a rank sends before it waits for as many lists; 0: all lists

  constexpr std::uint64_t ranks() const { return static_cast<std::uint64_t>(place.size); }
};

std::optional<failure> validate(const sparse_problem& problem);

/// Returns min(k, count). With `exact`, a rank sends at most this number of items, and a result has at most this number
/// of items.
constexpr std::uint64_t most_items(const sparse_problem& problem) { return std::min(problem.k, problem.count); }

/// Returns the maximum number of items that a rank selects: k, or 4 k with `reused`. If more elements reach the
/// threshold, only the largest are sent, and the others stay in the residual.
constexpr std::uint64_t most_selected(const sparse_problem& problem) {
  const std::uint64_t k = most_items(problem);
  return problem.selection == selection_rule::exact ? k : std::min(problem.count, 4 * k);
}

/// Returns the maximum number of items that a rank sends to one owner: most_selected(problem), or ceil(k/P) with
/// `defer`.
std::uint64_t list_room(const sparse_problem& problem);
/// Returns the maximum number of items that a rank sends to all owners: most_selected(problem), or k with `defer`.
std::uint64_t sent_room(const sparse_problem& problem);
/// Returns the maximum number of items of an owner's sum: the maximum number of items that the owner receives, but at
/// most `count`. An owner receives at most P * sent_room items, or at most k items with `defer`.
std::uint64_t sum_room(const sparse_problem& problem);
/// Returns k, the maximum number of items that all owners together keep for the result. With reused thresholds, returns
/// the maximum number of items that all ranks send, so that no item is left out in any round.
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

/// A non-owning view of a list.
struct item_list {
  const std::byte* items = nullptr;
  std::uint64_t count = 0;
};

}  // namespace lsched
