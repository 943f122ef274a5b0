// Trials in which schedules are cancelled at random moments. Ranks may be threads or processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "bindings/cpp/lsched.hpp"

namespace lsched::testing {

/// The end of a trial on one rank.
enum class trial_end : std::uint8_t { unknown, finished, timed_out, was_told };

/// The ends of trials, shared by all ranks.
struct trial_board {
  std::function<void(std::uint64_t trial, trial_end mine)> put;            ///< called by all ranks, trial by trial
  std::function<trial_end(std::uint64_t trial, std::int32_t other)> look;  ///< called after `put` of all ranks
};

/// Runs trials on this rank. In each trial one rank is late, and the calls of other ranks may time out. An exception
/// then unwinds past a schedule with a round in flight. Afterwards its memory is reused, and another schedule must
/// still work. If an error names the rank that cancelled, that rank must have timed out. Vectors have at most
/// `most_elements`.
void run_cancel_trials(lsched::world& mine, std::uint64_t trials, std::size_t most_elements, const trial_board& board);

}  // namespace lsched::testing
