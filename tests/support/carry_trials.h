// Trials of two partial schedules that survivors carry into smaller worlds. One thread steps all ranks, and a rank may
// die between any two steps. The engines, boards, commits, hand-overs and sessions are those of the library, over
// shared memory. Only the order of calls in lsched_carry (bindings/c/shrink.cc) is repeated here.
#pragma once

#include <cstdint>
#include <string>

namespace lsched::testing {

constexpr std::uint64_t k_no_second_death = UINT64_MAX;

struct carry_trial {
  std::uint64_t seed;                              ///< seed of all choices except the fields below
  std::uint64_t second_death = k_no_second_death;  ///< steps after the first death
  bool drops_adopted_results = false;              ///< sabotage: a result that a rank adopts is lost
};

struct carry_outcome {
  std::string fault;           ///< empty: every survivor has each survivor's offers exactly once, in the same rounds
  std::uint64_t recovery = 0;  ///< steps from the first death until all survivors have collected again
  std::uint64_t adopted = 0;   ///< results that survivors have adopted from other survivors
  bool is_repeated = false;    ///< a dead rank had ended a round with a sum that differs from the survivors' sum
};

carry_outcome run_carry_trial(const carry_trial& what);

}  // namespace lsched::testing
