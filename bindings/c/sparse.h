// Sparse allreduces as C callers ask for them: checked, and with what lives from round to round.
#pragma once

#include <memory>
#include <string>

#include "bindings/c/lsched.h"
#include "collectives/sparse/sparse_allreduce.h"
#include "collectives/sparse/steps/sparse_functions.h"
#include "collectives/sparse/steps/state.h"

namespace lsched {

/// What is asked for, and by which algorithm.
struct sparse_question {
  sparse_problem problem;
  const sparse_algorithm* how = nullptr;
};

struct sparse_request : sparse_question {
  std::string agreement;  ///< all that ranks have to agree about, in words
  std::shared_ptr<sparse_state> state;
  std::shared_ptr<sparse_functions> steps;  ///< keep the state, too
};

/// Reads the desc of a rank, but for its memory. ARGUMENT for whatever is out of range or does not belong to the
/// algorithm.
result<sparse_question> read_question(world place, const lsched_sparse_desc& desc);

/// The same, with the state and the functions of a rank that runs it.
result<sparse_request> read_request(world place, const lsched_sparse_desc& desc);

}  // namespace lsched
