// Trials in which schedules are cancelled at random moments. Ranks may be threads or processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "bindings/cpp/lsched.hpp"

namespace lsched::testing {

/// The way in which a trial ended on one rank. `was_told`: another rank has cancelled.
enum class trial_end : std::uint8_t { unknown, finished, timed_out, was_told };

/// Stores how trials ended. All ranks share this store.
struct trial_board {
  std::function<void(std::uint64_t trial, trial_end mine)> put;            ///< stores how a trial ended on the calling
                                                                           ///< rank; all ranks call it in each trial
  std::function<trial_end(std::uint64_t trial, std::int32_t other)> look;  ///< returns how the trial ended on rank
                                                                           ///< `other`; must follow the calls of `put`
                                                                           ///< by all ranks
};

/// Runs trials on this rank. In each trial one rank is late, and the calls of other ranks may time out. A timeout
/// throws an exception, which destroys a schedule whose round is still in flight. The test then reuses the memory of
/// that schedule, and another schedule must still work. If an error names the rank that cancelled, that rank must have
/// timed out. Vectors have at most `most_elements` elements.
void run_cancel_trials(lsched::world& mine, std::uint64_t trials, std::size_t most_elements, const trial_board& board);

}  // namespace lsched::testing
