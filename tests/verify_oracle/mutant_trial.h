// The trial of a mutant (a world with a planted fault) checks whether verify() detects the fault. If not, the trial
// checks whether the mutant is equivalent to the original.
#pragma once

#include <span>
#include <string>

#include "libsched/verify/verify.h"

namespace lsched {

enum class fate : std::uint8_t {
  killed,      ///< verify() reports a fault
  equivalent,  ///< the mutant is correct: its schedules are unchanged, or they fulfil the postcondition in every order
               ///< of events (interleavings.h)
  survived,    ///< verify() accepts the mutant, but the check of all interleavings fails or is undecided
};

struct trial {
  fate what = fate::survived;
  std::string why{};  ///< if killed, the first finding of verify(); if survived, the result of the interleavings
};

trial try_mutant(std::span<const schedule_ptr> mutant, std::span<const schedule_ptr> original,
                 const postcondition& promise, const verify_options& options = {});

}  // namespace lsched
