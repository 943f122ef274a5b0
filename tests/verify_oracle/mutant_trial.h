// The trial of a mutant: whether verify() notices the fault, and if it does not, whether there is one.
#pragma once

#include <span>
#include <string>

#include "libsched/verify/verify.h"

namespace lsched {

enum class fate : std::uint8_t {
  killed,      ///< verify() objects
  equivalent,  ///< no fault: the schedules are the original ones, or keep the promise in every order (interleavings.h)
  survived,    ///< verify() has overlooked a fault, or nobody could show within bounds that it is none
};

struct trial {
  fate what = fate::survived;
  std::string why{};  ///< of killed: verify's first finding; of survived: what goes wrong
};

trial try_mutant(std::span<const schedule_ptr> mutant, std::span<const schedule_ptr> original,
                 const postcondition& promise, const verify_options& options = {});

}  // namespace lsched
