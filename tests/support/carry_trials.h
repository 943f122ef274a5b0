// Trials of two partial schedules that the surviving ranks move into smaller worlds (lsched_carry). One thread runs all
// ranks step by step, and a rank may die between any two steps. The engines, boards, commits, moves and sessions are
// the library's own code, over shared memory. Only the waits between the steps of a move (offload/carry.cc) are
// reimplemented here. Each survivor must receive every contribution of every survivor exactly once. Each
// contribution must reach all survivors in the same round.
#pragma once

#include <cstdint>
#include <string>

namespace lsched::testing {

constexpr std::uint64_t k_no_second_death = UINT64_MAX;

struct carry_trial {
  std::uint64_t seed;                              ///< determines all choices except the fields below
  std::uint64_t second_death = k_no_second_death;  ///< number of steps between the first and the second death
  bool drops_adopted_results = false;  ///< planted fault: results that a rank adopts from another rank are lost
  bool forgets_predecessors = false;   ///< planted fault: the new instances do not continue the old instances
};

struct carry_outcome {
  std::string fault;           ///< description of the first error, or empty
  std::uint64_t recovery = 0;  ///< number of steps from the first death until each survivor has collected a new result
  std::uint64_t adopted = 0;   ///< number of results that survivors have adopted from other survivors
  bool is_repeated = false;    ///< whether the survivors repeated a round that a dead rank had ended with another sum
};

carry_outcome run_carry_trial(const carry_trial& what);

}  // namespace lsched::testing
