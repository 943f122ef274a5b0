// Verify: the interpreter that proves.
//
// Takes the schedules of a whole world and a promise, and proves that every execution keeps it: whatever the order in
// which messages arrive, at any eager limit, whatever lists hold, whoever makes the first call.
// One linear pass is enough for that, because firing is monotone: an op never disables another, so all interleavings
// fire the same payload and compute ops. What depends on order (who may touch memory when) is judged by
// happens-before, never by one execution. docs/reference/verify.md says what is proved and how, and what is not.
//
// Pure but for options.known; may be called from any thread. Time and memory are linear in the ops of the world, except
// for hazards (k^2 / 8 bytes for the k ops of one rank at a time; a rank for which that is more than k_most_order_bytes
// is a finding) and partial schedules (a pass over the activation for each initiator, unless options.known has it).
#pragma once

#include <span>
#include <vector>

#include "libsched/postcondition/aliasing.h"
#include "libsched/postcondition/postcondition.h"
#include "libsched/schedule/schedule.h"
#include "libsched/verify/activation_check.h"
#include "libsched/verify/finding.h"
#include "libsched/verify/memo.h"
#include "libsched/verify/progress.h"

namespace lsched {

struct verify_memo;

struct verify_options {
  aliasing in_place{};             ///< whether inputs and outputs share memory, and how
  std::size_t most_findings = 16;  ///< of each kind of list; at least 1
  buffering buffers{};             ///< that messages may count on; none: they wait for their receives
  verify_memo* known = nullptr;    ///< what was proved before: looked up, and added to
};

/// What may arrive at a rank before the receive it belongs to is posted: an upper bound.
struct unexpected_bound {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
};

/// The counts below are complete only if the world holds.
struct verification {
  std::vector<finding> findings{};             ///< why it does not hold
  std::vector<finding> notes{};                ///< legal, but worth knowing
  cost round_cost{};                           ///< counted
  bool is_synchronising = false;               ///< computed, whatever is declared
  bool is_eager_safe = false;                  ///< with unlimited buffering for messages, every round ends
  std::vector<unexpected_bound> unexpected{};  ///< by rank

  bool holds() const { return findings.empty(); }
};

/// What was proved before, and need not be again. May be used from several threads.
struct verify_memo {
  memo<wake_cost> activations{};
  memo<verification> worlds{};  ///< by key_of(), those that hold, without notes; bytes divided by the unit
};

/// Of the rank that may have to keep the most bytes, then messages.
unexpected_bound worst_unexpected(const verification& answer);

/// Rank r runs world[r]. None of the pointers is null; the schedules need not come from compile().
verification verify(std::span<const schedule_ptr> world, const postcondition& promise,
                    const verify_options& options = {});

}  // namespace lsched
