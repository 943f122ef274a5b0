// The request for a partial schedule: its validation, its schedule, and the companions that its session needs
// (libsched/session/session.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/requests/collective_request.h"
#include "collectives/requests/sparse_request.h"
#include "collectives/schedule_cache.h"
#include "libsched/commit/commit.h"
#include "libsched/session/session.h"

namespace lsched {

/// The members are named as in lsched_partial_desc, and have the same meaning. `what` names the collective without
/// "partial_", and must have an activation. Without a name, the collective is an allreduce.
struct partial_request {
  collective_request what{};
  result<lag_policy> lag = lag_policy::latest;
  std::uint32_t history = 0;
  result<divisor> divided_by = divisor::none;
  std::int32_t averages_weights = 0;
  result<age_rule> age = age_rule{};
  std::uint32_t fragments = 0;
};

/// The schedule of one rank, and the schedules for the calls that all ranks make together.
struct planned_partial {
  std::string agreement;
  result<schedule_ptr> program;
  std::vector<companion> companions{};
};

/// A validated request of a partial schedule that is not sparse. The plan does not depend on the number of ranks.
struct partial_plan {
  const collective* kind = nullptr;
  std::string algorithm{};
  shape data{};
  activation starts{};
  lag_rule lag{};
  std::optional<shape> weights{};  ///< weights that lsched_model_sync averages; not set: lsched_model_sync is refused
  std::string elements{};          ///< as in collective_request
  age_rule age{};
  std::uint32_t fragments = 1;

  result<planned_partial> make(schedule_cache& made) const;
  /// Makes the schedule for the survivors of the world for which the request was validated.
  result<planned_partial> make_for_survivors(schedule_cache& made) const;
  /// Returns true if survivors can continue the schedule. This requires that all ranks have the same result, and that
  /// the length of the result does not depend on the number of ranks.
  bool survives_ranks() const { return kind == &k_partial_allreduce || kind == &k_partial_adasum; }
};

/// Returns ARGUMENT for a collective without a partial form, and for members that are out of range or contradict each
/// other.
result<partial_plan> validate(const partial_request& request);

/// Validates a sparse allreduce with an activation, and makes its schedule. Writes the sparse allreduce with its state
/// to `*choice`.
result<planned_partial> plan(const partial_request& request, const sparse_request& sparse, schedule_cache& made,
                             planned_sparse* choice);

/// Returns the rule for results that are not collected in time. `request` must be valid.
lag_rule lag_of(const partial_request& request);

}  // namespace lsched
