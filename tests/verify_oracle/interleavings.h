// Checks that a small world fulfils its postcondition in every possible order of events (interleaving). The check
// executes all orders, whereas verify() reasons about them.
//
// The only code that this check and verify() share is the firing rule and the aliasing of buffers. Therefore each of
// them tests the other. A mutant is a world with a planted fault. If verify() accepts a mutant, the mutant counts as
// equivalent to the original only if this check also accepts it.
//
// An event is the begin of a rank's round, the application's call, the arrival of a signal, or the completion of an op.
// Each predecessor of an op gives the op a token, and the op fires at once when it has enough tokens. The check
// executes two kinds of scenes:
//   * Safety (no memory hazard, no rank leaves a round before all ranks have entered, no wrong result): every order,
//     with eager sends and calls of all ranks.
//   * Progress: one scene for every single call that may start the round. Sends wait for their receives. If the
//     schedule declares so, sends also wait for the ops that read their payloads in place.
//
// The orders are reduced by persistent sets (Godefroid, 1996). Consider an event that may happen next on a rank. The
// deps (dependencies) of the rank may imply that no earlier event can influence this event. The check then executes
// this event at once and tries no other order. The check stores a state only if it must try several events in that
// state.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "libsched/postcondition/aliasing.h"
#include "libsched/postcondition/postcondition.h"
#include "libsched/schedule/schedule.h"

namespace lsched {

enum class conclusion : std::uint8_t { holds, fails, undecided };

struct interleaving_options {
  aliasing in_place{};                  ///< inputs and outputs that share memory
  bool is_reduced = true;               ///< false: executes every order of every scene (only for very small worlds)
  std::uint64_t most_states = 100'000;  ///< maximum number of stored states; with more states, the result is undecided
  bool has_foreign_functions = false;   ///< whether ops call functions; no postcondition accepts the results of
                                        ///< functions
};

struct interleaving_verdict {
  conclusion what = conclusion::undecided;
  std::string why{};  ///< if the world fails: the rank, the op and the error; if undecided: the reason
  std::uint64_t states = 0;
};

/// Executes a world in which rank r runs world[r]. Costs in the postcondition are ignored. A guard is a condition on
/// the rounds in which an op runs. The result is undecided if guards have long periods, if ops call functions, or if
/// there are too many states. Guards that skip empty lists skip nothing here, because moving an empty list does not
/// change any checked property.
interleaving_verdict play(std::span<const schedule_ptr> world, const postcondition& promise,
                          const interleaving_options& options = {});

}  // namespace lsched
