// Two partial schedules that survivors carry into smaller worlds, stepped in one thread. A rank may die between any two
// steps. The engines, boards, commits, hand-overs and sessions are the library's, over shared memory. Only the order of
// calls in lsched_carry is written once more (bindings/c/shrink.cc).
#pragma once

#include <cstdint>
#include <string>

namespace lsched::testing {

constexpr std::uint64_t k_no_second_death = UINT64_MAX;

struct carry_trial {
  std::uint64_t seed;                              ///< of everything that is not named below
  std::uint64_t second_death = k_no_second_death;  ///< so many steps after the first death
  bool drops_adopted_results = false;              ///< sabotage: a result that a rank takes over is lost
};

struct carry_outcome {
  std::string fault;           ///< empty: every survivor has what all survivors have offered, once, in the same rounds
  std::uint64_t recovery = 0;  ///< steps from the first death until all survivors have collected again
  std::uint64_t adopted = 0;   ///< results that a survivor has taken over from another one
  bool is_repeated = false;    ///< a dead rank had ended a round with another sum than the survivors
};

carry_outcome run_carry_trial(const carry_trial& what);

}  // namespace lsched::testing
