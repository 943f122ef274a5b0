// The request for a sparse allreduce: the choice of the algorithm, and the state that a rank needs to run it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "collectives/sparse/sparse_allreduce.h"
#include "collectives/sparse/steps/sparse_functions.h"
#include "collectives/sparse/steps/state.h"

namespace lsched {

/// The members are named as in lsched_sparse_desc, and have the same meaning.
struct sparse_request {
  sparse_problem problem{.period = 0, .scale = 0, .reuse = 0};  ///< period, scale, reuse: 0 means the default
  std::string_view algorithm{};                                 ///< null: the library chooses the algorithm
  const std::byte* gradient = nullptr;
  const std::byte* update = nullptr;
  std::optional<std::span<const std::byte>> image{};  ///< state of an earlier schedule
};

/// A validated problem with its defaults, and the chosen algorithm.
struct sparse_choice {
  sparse_problem problem;
  const sparse_algorithm* how = nullptr;
};

/// A sparse allreduce with all data that a rank needs to run it.
struct planned_sparse : sparse_choice {
  std::string agreement;  ///< the text on which all ranks must agree
  std::shared_ptr<sparse_state> state;
  std::shared_ptr<sparse_functions> steps;  ///< shares the ownership of the state
};

/// Returns ARGUMENT if a member is out of range, or is set although the algorithm does not use it.
result<sparse_choice> choose(const sparse_request& request);

/// Makes the state, or loads it from the image. Does not check the gradient and the update. Returns the failures of
/// choose(), NOMEM, and the failures of sparse_state::load.
result<planned_sparse> plan(const sparse_request& request);

/// Returns ARGUMENT if the gradient or the update has elements but no memory, or if they overlap.
std::optional<failure> validate_vectors(const sparse_request& request);

}  // namespace lsched
