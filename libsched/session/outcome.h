// These functions return the outcome of a round for a waiting caller, and the text of a failure.
#pragma once

#include <string_view>

#include "libsched/engine/engine.h"

namespace lsched {

/// A round that a caller waits for. The instance and the caller number the same round differently.
struct awaited_round {
  const instance& runs;
  round_no round;  ///< round number of the instance
  round_no shown;  ///< round number of the caller; 0: the caller waits for the creation or the end of the schedule
};

/// Returns OK if the round has ended. Returns the error of the instance if the instance has failed before the end of
/// the round. Returns PENDING otherwise. Any thread may call this function.
status outcome_of(const awaited_round& awaited);

/// Returns the failure of a wait or a start that has returned the error `answer`. The failure names the rank to blame.
failure describe_failure(const instance& runs, status answer);

/// Returns a TIMEOUT failure whose text describes what the awaited round waits for. The failure names the rank to
/// blame. The text describes the open round of the instance, which may be earlier than the awaited round. In that case,
/// the text begins with `label` and the number of the awaited round. Only the engine's owner may call this function.
failure describe_wait(const engine& runs, std::string_view label, const awaited_round& awaited);

}  // namespace lsched
