// Interleavings: whether a small world keeps a promise in every order in which its events can happen, by trying them.
//
// It shares the firing rule and the aliasing with verify() and nothing else: verify() reasons about order, this one
// plays it out. So each is the other's test, and a mutant that verify() accepts is equivalent to the original only if
// this agrees.
//
// An event is the begin of a rank's round, the application's call, the landing of a signal or the completion of an op;
// an op fires with the event that gives it the last token it needs. Played are: every order under eager sends, with
// everybody calling, for whatever must not happen (a hazard, an exit before an entry, a wrong result); and one world
// for every single call that may start the round, where sends wait for their receives and, if that is declared, for
// the readers of their payloads, for whatever must happen.
//
// The orders are reduced by persistent sets (Godefroid, 1996): an event that nothing which may come before it can
// disturb, by the deps of its own rank, is played at once and alone. States are remembered where there is a choice.
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
  aliasing in_place{};                  ///< whether inputs and outputs share memory, and how
  bool is_reduced = true;               ///< false: every order of every world above, for very small worlds
  std::uint64_t most_states = 100'000;  ///< with a choice; more, and there is no conclusion
  bool has_foreign_functions = false;   ///< the promise knows none: whatever a function makes is nobody's promise
};

struct interleaving_verdict {
  conclusion what = conclusion::undecided;
  std::string why{};  ///< of fails: rank, op and what happens; of undecided: what is in the way
  std::uint64_t states = 0;
};

/// Rank r runs world[r]. What the promise says about the cost is not looked at. Undecided if guards have long periods,
/// ops call functions, or there are too many states. Guards that skip empty lists are played as if lists were never
/// empty: to move an empty list changes nothing that this looks at.
interleaving_verdict play(std::span<const schedule_ptr> world, const postcondition& promise,
                          const interleaving_options& options = {});

}  // namespace lsched
