// Trials of rounds that are cancelled, or in which a rank dies. If such a round fails on a rank, this rank reuses its
// buffers at once. If another rank finishes the same round with OK, the result of that rank must be correct
// (docs/reference/cancel.md).
#pragma once

#include <cstdint>
#include <string>

#include "ops/base.h"

namespace lsched::testing {

struct reuse_result {
  std::uint64_t finished = 0;  ///< number of rounds that ended with OK on a rank; their results were checked
  std::uint64_t failed = 0;    ///< number of rounds that ended with PEER or CANCELLED, except on the rank that
                               ///< cancelled or died
  std::string complaints;
};

/// Runs trials with threads as ranks. In each of `cancels` schedules, one rank cancels at a random moment.
reuse_result reuse_after_cancels(rank ranks, std::uint64_t seed, std::uint64_t cancels);

/// Runs a trial with processes as ranks. One rank after another dies during a round, until two ranks are left.
reuse_result reuse_after_deaths(rank ranks, std::uint64_t seed);

/// Runs a broadcast in which a rank reads a message late, after the sender has learned of the death of another rank.
/// Returns the failures, or an empty string.
std::string reuse_before_a_late_reader();

}  // namespace lsched::testing
