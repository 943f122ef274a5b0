// Hazards: what could go wrong inside one rank if its ops ran in another order.
//
// What every execution orders alike, by deps of the rank itself, is in analysis/order.h.
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/postcondition/aliasing.h"
#include "libsched/verify/assembly.h"

namespace lsched {

/// Bytes that the order of one rank's ops may take: a rank that needs more is a finding of property `hazard`.
inline constexpr std::uint64_t k_most_order_bytes = std::uint64_t{1} << 30;

/// What the end of a round may come too early for, of the ranks that were checked.
struct round_ends {
  std::vector<std::vector<bool>> fired{};  ///< by rank and op: whether it has fired whenever the rank's round ends
  std::vector<world_op> unsure_signals{};  ///< signals that have not, so that they may not be sent
};

/// Two ops of a rank on overlapping bytes, one of them writing, and neither before the other; property `hazard`. Where
/// only a way through other ranks orders them, that is a note. And ops that move or compute and that the end of the
/// round may come too early for; property `progress`. Stops where `out` is full.
///
/// `order`: what fires in every execution, each op after all it waits for, sends before their receives.
round_ends check_hazards(const assembly& all, const std::vector<world_op>& order, const aliasing& in_place,
                         finding_list& out, finding_list& notes);

}  // namespace lsched
