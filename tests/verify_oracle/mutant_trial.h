// The trial of a mutant. It checks whether verify() detects the fault and, if not, whether the mutant is equivalent.
#pragma once

#include <span>
#include <string>

#include "libsched/verify/verify.h"

namespace lsched {

enum class fate : std::uint8_t {
  killed,      ///< verify() reports a fault
  equivalent,  ///< no fault: the schedules are unchanged, or fulfil the postcondition in every order (interleavings.h)
  survived,    ///< verify() accepts the mutant, but the interleavings fail or are undecided
};

struct trial {
  fate what = fate::survived;
  std::string why{};  ///< killed: first finding of verify(); survived: reason of the interleavings
};

trial try_mutant(std::span<const schedule_ptr> mutant, std::span<const schedule_ptr> original,
                 const postcondition& promise, const verify_options& options = {});

}  // namespace lsched
