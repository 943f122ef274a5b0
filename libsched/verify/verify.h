// The verifier, which proves that schedules meet a postcondition.
//
// verify() takes the schedules of a whole world and a postcondition. It proves that every execution meets the
// postcondition, for any order of messages, any eager limit, any contents of lists and any sufficient set of callers.
// One linear pass suffices, because firing is monotone: an op never prevents another op from firing. So all
// interleavings fire the same payload and compute ops. Some properties depend on the order of ops, for example that no
// memory accesses conflict. The verifier proves these properties by the happens-before relation, not by one execution.
// docs/reference/verify.md describes the proofs and their limits.
//
// Thread safety: verify() is pure except for options.known. Any thread may call verify().
//
// Time and memory are linear in the number of ops, with two exceptions. The check for hazards needs k^2 / 8 bytes for a
// rank with k ops, one rank at a time. If that exceeds k_most_order_bytes, verify() reports a finding. Partial
// schedules need one pass over the activation for each rank that can call first, unless options.known has the result of
// these passes.
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
  aliasing in_place{};             ///< how inputs and outputs share memory
  std::size_t most_findings = 16;  ///< maximum length of each list of findings; at least 1
  buffering buffers{};             ///< assumed buffers for messages; by default, each send waits for its receive
  verify_memo* known = nullptr;    ///< results of earlier proofs, which verify() uses and extends; may be null
};

/// An upper bound on the messages that can arrive at a rank before their receives are posted.
struct unexpected_bound {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
};

/// The result of a proof. The counts are complete only if holds() returns true.
struct verification {
  std::vector<finding> findings{};             ///< violations of properties
  std::vector<finding> notes{};                ///< facts of interest that are not violations
  cost round_cost{};                           ///< cost that the proof has counted
  bool is_synchronising = false;               ///< computed by the proof, not declared
  bool is_eager_safe = false;                  ///< every round ends if messages have unlimited buffers
  std::vector<unexpected_bound> unexpected{};  ///< bounds, by rank

  bool holds() const { return findings.empty(); }
};

/// Results of earlier proofs, for reuse. Thread-safe.
struct verify_memo {
  memo<wake_cost> activations{};
  /// Results without findings and notes. key_of() returns the keys. Numbers of bytes in these results are divided by
  /// world_key::unit.
  memo<verification> worlds{};
};

/// Returns the largest bound of all ranks. Bounds are compared by bytes, and then by messages.
unexpected_bound worst_unexpected(const verification& answer);

/// Verifies a world in which rank r runs world[r]. No pointer may be null. The schedules need not come from compile().
verification verify(std::span<const schedule_ptr> world, const postcondition& promise,
                    const verify_options& options = {});

}  // namespace lsched
