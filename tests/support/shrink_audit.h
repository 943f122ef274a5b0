// Checks the results of a shrink trial (shrink_trials.h).
#pragma once

#include <string>

#include "tests/support/shrink_board.h"
#include "tests/support/shrink_trials.h"

namespace lsched::testing {

/// Checks the contributions that the survivors have received from a schedule. All survivors must have the same
/// contributions: every contribution of a survivor exactly once, and the first contributions of a lost rank. Returns a
/// description of the failures, or an empty string.
std::string audit_totals(const shrink_trial& what, const shrink_board& board, std::size_t schedule);

/// Checks the totals of all ranks after each round. A lost rank may have ended its last round although no survivor has
/// ended that round. The survivors then repeat that round, perhaps with other contributions. Adds the number of such
/// rounds to `repeated`.
std::string audit_rounds(const shrink_trial& what, const shrink_board& board, std::size_t schedule, int* repeated);

}  // namespace lsched::testing
