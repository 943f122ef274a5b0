// Trials of schedules that are given up at random moments: what each rank of a world does, whatever ranks are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "bindings/cpp/lsched.hpp"

namespace lsched::testing {

/// How a rank has come out of a trial.
enum class trial_end : std::uint8_t { unknown, finished, timed_out, was_told };

/// What became of trials, for all ranks to see.
struct trial_board {
  std::function<void(std::uint64_t trial, trial_end mine)> put;            ///< all ranks, trial by trial
  std::function<trial_end(std::uint64_t trial, std::int32_t other)> look;  ///< after all have put theirs
};

/// In each trial some rank comes late, and others may have lost their patience by then: an exception unwinds past a
/// schedule with a round under way. After that its memory is used for something else, and another schedule goes on. A
/// rank that is told who has given the schedule up must be told right. Vectors have at most so many elements.
void run_cancel_trials(lsched::world& mine, std::uint64_t trials, std::size_t most_elements, const trial_board& board);

}  // namespace lsched::testing
