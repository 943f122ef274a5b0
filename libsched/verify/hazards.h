// A hazard is a fault inside one rank. The fault occurs only if the rank's ops execute in certain orders.
//
// analysis/order.h computes the order that the deps of one rank guarantee in every execution.
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/postcondition/aliasing.h"
#include "libsched/verify/assembly.h"

namespace lsched {

/// Maximum memory, in bytes, for the order of one rank's ops. A rank that needs more causes a finding of property
/// `hazard`.
inline constexpr std::uint64_t k_most_order_bytes = std::uint64_t{1} << 30;

/// The ops that have certainly fired when a round ends, and the signals that possibly have not fired. Contains only the
/// ranks that were checked.
struct round_ends {
  std::vector<std::vector<bool>> fired{};  ///< by rank and op: the op has always fired when the round ends
  std::vector<world_op> unsure_signals{};  ///< signals that are not certain to have fired when the round ends
};

/// Finds pairs of ops of a rank that access the same bytes in no fixed order (property `hazard`). At least one op of a
/// pair writes the bytes. If a chain through other ranks orders the two ops, adds a note instead. Also finds ops that
/// move or compute data but need not have fired when the round ends (property `progress`). Stops if `out` is full.
///
/// `order`: the ops that fire in every execution, in topological order, with each send before its receive.
round_ends check_hazards(const assembly& all, const std::vector<world_op>& order, const aliasing& in_place,
                         finding_list& out, finding_list& notes);

}  // namespace lsched
