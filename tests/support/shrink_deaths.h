// The deaths of ranks and the faults of hosts in a shrink trial (shrink_trials.h). The seed of the trial determines the
// times of both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/child_ranks.h"
#include "tests/support/network_hosts.h"
#include "tests/support/shrink_board.h"
#include "tests/support/shrink_trials.h"

namespace lsched::testing {

/// The steps of a recovery. The timer of a planned death starts directly before one of these steps.
enum class place_of_death : std::uint8_t { shrink, first_carry, last_carry, close, return_to_training };

/// The planned death of a rank. A timer sends SIGKILL, so the rank can die at any instruction after the start of the
/// timer.
struct planned_death {
  bool is_planned = false;
  std::int64_t in_step = 0;      ///< step in which the rank dies; 0 if the rank dies in a recovery
  std::int64_t in_recovery = 0;  ///< index of the first recovery of this rank in which the rank may die
  place_of_death place = place_of_death::shrink;
  std::uint64_t delay_ns = 0;
};

/// Returns the planned death of each rank. With `kills_in_recovery`, all deaths happen in a recovery, except the first
/// event of the trial.
std::vector<planned_death> draw_deaths(const shrink_trial& what);

/// Starts a timer that sends SIGKILL to this process after the delay.
void die_in(std::uint64_t delay_ns);

/// Makes the faults of the trial's hosts. A fault begins after the first rank has begun a random step or a recovery.
/// Returns an empty string, or a description of a failure.
std::string make_host_faults(const shrink_trial& what, const network_hosts& net, const child_ranks& children,
                             shrink_board& board);

}  // namespace lsched::testing
