// Sparse allreduces: the ways to do one, by name.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "collectives/algorithm/algorithm.h"
#include "collectives/sparse/steps/sparse_functions.h"

namespace lsched {

/// What one round costs the rank that has most, as estimates for choosing.
struct sparse_cost {
  double messages = 0;  ///< after each other
  double words = 0;     ///< of 4 bytes, sent or received, whichever is more; counters and lengths included
};

/// What the ops of a sparse allreduce lie between.
struct sparse_ends {
  buffer_id gradient = k_no_buffer;
  buffer_id update = k_no_buffer;
  /// Of a partial one: the sum of all contributions' first elements, and the op that completes it. Who contributed
  /// cannot be told by what the functions read (functions.h): the one that makes the update reads the contributor
  /// count, too.
  buffer_id contributor_count = k_no_buffer;
  op_id counted = k_no_op;
};

struct sparse_algorithm {
  std::string_view name;
  fragment (*add)(builder& to, const sparse_problem& problem, const sparse_ends& ends);
  /// Of gradients whose large elements lie anywhere, and on other places on every rank.
  sparse_cost (*cost_of)(const sparse_problem& problem);
  /// What the schedule calls. The state outlives it. Throws std::bad_alloc.
  std::shared_ptr<sparse_functions> (*functions)(const sparse_problem& problem, sparse_state& state);
  std::string_view summary;  ///< one line for people

  /// Input 0: gradient, output 0: update. Refused if the problem is not valid.
  result<schedule_ptr> generate(const sparse_problem& problem) const;
};

/// What `functions` is where they are of a class.
template <class Functions>
std::shared_ptr<sparse_functions> functions_of(const sparse_problem& problem, sparse_state& state) {
  return std::make_shared<Functions>(problem, state);
}

// The generators append the algorithm for a `problem` that validate() accepts.
fragment add_oktopk(builder& to, const sparse_problem& problem, const sparse_ends& ends);
fragment add_topka(builder& to, const sparse_problem& problem, const sparse_ends& ends);
/// As topka, of lists of up to `most` items.
fragment add_lists_to_all(builder& to, const sparse_problem& problem, const sparse_ends& ends, std::uint64_t most);

/// Those of the library, and after them those that were added.
std::span<const sparse_algorithm> sparse_algorithms();

/// Algorithms that are no part of the library: baselines. `auto` does not choose them. Before anything else here is
/// called.
void add_sparse_algorithms(std::span<const sparse_algorithm> more);

/// Exactly this one, or nullptr.
const sparse_algorithm* find_sparse(std::string_view name);

/// The one of the library that takes least: messages at 2 us each, words at 10 GB/s in all.
const sparse_algorithm& choose_sparse(const sparse_problem& problem);

/// A sparse allreduce behind an activation (compose.h). A rank whose call has not come brings no gradient to the round,
/// but takes part with what its residual has. Beside the collective goes an allreduce of one element, the contributor
/// count:
///
///       gate ─┬─► collective: select ─► … ─► settle ─► exit
///             └─► allreduce of one element ────┘
///
/// Failures: those of `how` and of an activation.
result<schedule_ptr> partial_sparse_allreduce(const sparse_algorithm& how, const sparse_problem& problem,
                                              const activation& starts);

}  // namespace lsched
