// Trials of rounds that end early on some ranks, which then reuse their buffers at once. If another rank finishes such
// a round with OK, its result must be correct (docs/reference/cancel.md).
#pragma once

#include <cstdint>
#include <string>

#include "ops/base.h"

namespace lsched::testing {

struct reuse_result {
  std::uint64_t finished = 0;  ///< rounds that a rank has finished with OK, all of them checked
  std::uint64_t failed = 0;    ///< rounds that ended with PEER or CANCELLED on a rank that is not the culprit
  std::string complaints;
};

/// Runs trials with threads as ranks. In each of `cancels` schedules, one rank cancels at a random moment.
reuse_result reuse_after_cancels(rank ranks, std::uint64_t seed, std::uint64_t cancels);

/// Runs a trial with processes as ranks. The ranks die one after the other, each during a round, until two are left.
reuse_result reuse_after_deaths(rank ranks, std::uint64_t seed);

/// Runs a broadcast in which a rank reads a message late, after the sender has learned of the death of another rank.
/// Returns the failures, or an empty string.
std::string reuse_before_a_late_reader();

}  // namespace lsched::testing
