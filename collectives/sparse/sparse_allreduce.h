// The algorithms for sparse allreduces, by name.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "collectives/algorithm/algorithm.h"
#include "collectives/sparse/steps/sparse_functions.h"

namespace lsched {

/// The estimated cost of one round for the busiest rank. The choice of an algorithm and `lsched list` use this
/// estimate.
struct sparse_cost {
  double messages = 0;  ///< number of messages in sequence
  double words = 0;     ///< max(sent, received) 4-byte words, including counters and lengths
};

/// The inputs of a generator: buffers, and ops of a partial schedule.
struct sparse_ends {
  buffer_id gradient = k_no_buffer;
  buffer_id update = k_no_buffer;
  /// For a partial allreduce: the buffer `contributor_count`, and the op `counted` after which this buffer is complete.
  /// The buffer contains the sum of the first elements of all contributions. The lists that functions read do not
  /// determine the contributors (functions.h). So the function that computes the update reads this buffer as operand b.
  buffer_id contributor_count = k_no_buffer;
  op_id counted = k_no_op;
};

struct sparse_algorithm {
  std::string_view name;
  fragment (*add)(builder& to, const sparse_problem& problem, const sparse_ends& ends);
  /// Returns an estimate for gradients whose large elements are at different positions on each rank.
  sparse_cost (*cost_of)(const sparse_problem& problem);
  /// Returns the functions that the schedule calls. `state` must outlive these functions. Throws std::bad_alloc.
  std::shared_ptr<sparse_functions> (*functions)(const sparse_problem& problem, sparse_state& state);
  std::string_view summary;  ///< one line for users
  /// Returns the size in bytes of the elements that a rank sends, if the algorithm quantises values. nullptr: the
  /// algorithm sends exact values, as items. The choice `auto` includes only algorithms with exact values.
  std::uint64_t (*encoded_bytes)(const sparse_problem& problem) = nullptr;

  /// Returns the number of bits in which a rank encodes its contribution to a round, divided by the number of elements
  /// of the vector. Exact if `encoded_bytes` is not null, else the maximum.
  double bits_per_element(const sparse_problem& problem) const;

  /// Returns a schedule with the gradient as input 0 and the update as output 0. Returns an error if the problem is not
  /// valid.
  result<schedule_ptr> generate(const sparse_problem& problem) const;
};

/// Implements sparse_algorithm::functions by class `Functions`.
template <class Functions>
std::shared_ptr<sparse_functions> functions_of(const sparse_problem& problem, sparse_state& state) {
  return std::make_shared<Functions>(problem, state);
}

// Append an algorithm for `problem`, which must be valid (validate()).
fragment add_oktopk(builder& to, const sparse_problem& problem, const sparse_ends& ends);
fragment add_topka(builder& to, const sparse_problem& problem, const sparse_ends& ends);
fragment add_sparseloco(builder& to, const sparse_problem& problem, const sparse_ends& ends);

/// Returns the algorithms of the library, followed by added algorithms.
std::span<const sparse_algorithm> sparse_algorithms();

/// Returns true if messages from this buffer of a sparse allreduce contain elements of vectors: lists of items, or
/// encoded elements (sparseloco). All other buffers contain counters, lengths and bitmaps.
inline bool holds_items(const buffer& it) { return it.has_lists() || it.type == dtype::u8; }

/// Adds algorithms that are not part of the library (baselines). `auto` does not choose these algorithms. Must be
/// called before all other functions of this file.
void add_sparse_algorithms(std::span<const sparse_algorithm> more);

/// Returns the algorithm with exactly this name, or nullptr.
const sparse_algorithm* find_sparse(std::string_view name);

/// Returns the algorithm of the library with the shortest estimated time, at 2 us per message and 10 GB/s.
const sparse_algorithm& choose_sparse(const sparse_problem& problem);

/// Returns a schedule whose sparse allreduce begins when an activation (compose.h) starts the round. A rank that has
/// not called contributes elements of its residual, but no gradient. An allreduce of one element runs in parallel to
/// the sparse allreduce, to count the contributors:
///
///       gate ─┬─► collective: select ─► … ─► settle ─► exit
///             └─► allreduce of one element ────┘
///
/// Returns the errors of the generator of `how`, and ARGUMENT if the activation is not valid.
result<schedule_ptr> partial_sparse_allreduce(const sparse_algorithm& how, const sparse_problem& problem,
                                              const activation& starts);

}  // namespace lsched
