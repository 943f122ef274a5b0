// Trials of rounds that end early on some ranks, which use their buffers for something else at once. Rounds that other
// ranks finish with OK have to be right all the same (docs/reference/cancel.md).
#pragma once

#include <cstdint>
#include <string>

#include "ops/base.h"

namespace lsched::testing {

struct reuse_result {
  std::uint64_t finished = 0;  ///< rounds that a rank has finished with OK, each of them checked
  std::uint64_t failed = 0;    ///< rounds that ended with PEER or CANCELLED on a rank that had not caused it
  std::string complaints;
};

/// Ranks are threads. In each of so many schedules, one rank cancels at a drawn moment.
reuse_result reuse_after_cancels(rank ranks, std::uint64_t seed, std::uint64_t cancels);

/// Ranks are processes. They die one after the other, each in a round, and the others go on until two are left.
reuse_result reuse_after_deaths(rank ranks, std::uint64_t seed);

/// A rank reads a message of a broadcast late, when the rank that has sent it has heard of the death of another.
/// Returns what went wrong.
std::string reuse_before_a_late_reader();

}  // namespace lsched::testing
