// The functions that schedules of sparse allreduces call (libsched/functions.h): the steps of this folder, on the
// memory of an instance.
#pragma once

#include <memory>
#include <string_view>

#include "libsched/functions.h"
#include "sparse/state.h"

namespace lsched {

/// Of `algorithm`, by its name: "oktopk", "topka", "gaussiank", "topkdsa", "gtopk", "gtopk_published" or "dense", which
/// calls none. The state outlives them. `children`: of this rank in gtopk's tree. nullptr: there is no such algorithm.
/// Throws std::bad_alloc.
std::shared_ptr<functions> sparse_functions(std::string_view algorithm, const sparse_problem& problem,
                                            sparse_state& state, std::uint32_t children);

}  // namespace lsched
