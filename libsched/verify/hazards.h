// Hazards: faults inside one rank that depend on the order in which its ops run.
//
// analysis/order.h computes the order that the deps of one rank guarantee in every execution.
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/postcondition/aliasing.h"
#include "libsched/verify/assembly.h"

namespace lsched {

/// The limit of the memory that stores the order of one rank's ops. A rank that needs more is a finding of property
/// `hazard`.
inline constexpr std::uint64_t k_most_order_bytes = std::uint64_t{1} << 30;

/// The ops that may be missing when a round ends, for the ranks that were checked.
struct round_ends {
  std::vector<std::vector<bool>> fired{};  ///< whether the op has fired whenever the rank's round ends, by rank and op
  std::vector<world_op> unsure_signals{};  ///< signals that are not certain to have fired when the round ends
};

/// Finds two ops of a rank that access the same bytes without an order, if one of them writes; property `hazard`. If
/// only a chain through other ranks orders them, adds a note instead. Also finds ops that move or compute data and may
/// be missing when the round ends; property `progress`. Stops if `out` is full.
///
/// `order`: the ops that fire in every execution, each after all ops that it waits for, sends before their receives.
round_ends check_hazards(const assembly& all, const std::vector<world_op>& order, const aliasing& in_place,
                         finding_list& out, finding_list& notes);

}  // namespace lsched
