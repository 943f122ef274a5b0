// The functions that schedules of sparse allreduces call (functions.h): the steps of this folder, on the
// memory of an instance.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "collectives/sparse/steps/state.h"
#include "libsched/schedule/functions.h"

namespace lsched {

/// And what they say of rounds, under nan_policy::error.
class judging_functions : public functions {
 public:
  /// The first element of a round's result that is not finite, if the round was refused for it; of all that were, the
  /// last one is remembered. Any thread, once the round has ended.
  std::optional<std::uint32_t> non_finite_element_of(round_no round) const;

 protected:
  /// A round is settled.
  void note(round_no round, std::optional<std::uint32_t> non_finite_element);

 private:
  std::atomic<round_no> refused_round_{0};
  std::atomic<std::uint32_t> non_finite_element_{0};
};

/// The state outlives them. They throw std::bad_alloc.
std::shared_ptr<judging_functions> functions_of_oktopk(const sparse_problem& problem, sparse_state& state);
std::shared_ptr<judging_functions> functions_of_topka(const sparse_problem& problem, sparse_state& state);

}  // namespace lsched
