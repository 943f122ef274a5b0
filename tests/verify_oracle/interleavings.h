// Interleavings: checks that a small world fulfils its postcondition in every possible order of events, by playing all
// orders.
//
// This check shares the firing rule and the aliasing with verify(), and no other code. verify() reasons about orders,
// and this check plays them. So each tests the other. A mutant that verify() accepts is equivalent to the original only
// if this check agrees.
//
// An event is the begin of a rank's round, the application's call, the arrival of a signal, or the completion of an op.
// An op fires with the event that gives the op its last needed token. Two kinds of scenes are played:
//   * Safety (no hazard, no exit before an entry, no wrong result): every order under eager sends, with calls of all
//     ranks.
//   * Progress: one scene for every single call that may start the round. Sends wait for their receives and, if that
//     is declared, for the readers of their payloads.
//
// The orders are reduced by persistent sets (Godefroid, 1996). An event is played at once and alone if, by the deps of
// its own rank, no event that may come before it can disturb it. States are stored where there is a choice.
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
  aliasing in_place{};                  ///< the memory that inputs and outputs share
  bool is_reduced = true;               ///< false: every order of every scene above, for very small worlds
  std::uint64_t most_states = 100'000;  ///< limit of states with a choice, above which the result is undecided
  bool has_foreign_functions = false;   ///< no postcondition accepts the result of a function
};

struct interleaving_verdict {
  conclusion what = conclusion::undecided;
  std::string why{};  ///< fails: rank, op and error; undecided: the reason
  std::uint64_t states = 0;
};

/// Plays a world in which rank r runs world[r]. Costs in the postcondition are ignored. The result is undecided if
/// guards have long periods, ops call functions, or there are too many states. Guards that skip empty lists are played
/// as if lists were never empty, because a move of an empty list does not change any checked property.
interleaving_verdict play(std::span<const schedule_ptr> world, const postcondition& promise,
                          const interleaving_options& options = {});

}  // namespace lsched
