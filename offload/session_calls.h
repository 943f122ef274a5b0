// Blocking calls of sessions. A call in libsched/session/session.h does not block, but returns the round for which the
// caller must wait. The functions below use the driver to wait for this round.
#pragma once

#include "libsched/session/session.h"
#include "offload/driver.h"

namespace lsched {

/// Repeats `call`, a call of a session, until the call succeeds or fails. Returns TIMEOUT after the deadline; a later
/// complete() with the same `call` then continues the interrupted call.
template <class Call>
call_progress complete(driver& by, driver::clock::time_point deadline, const Call& call) {
  for (;;) {
    call_progress now = call();
    if (now.answer != status::pending) return now;
    const driver::clock::time_point again{std::chrono::nanoseconds(now.again_ns)};
    const bool is_earlier = now.again_ns != 0 && again < deadline;
    if (by.wait(*now.awaited, now.round, is_earlier ? again : deadline) != status::timeout || is_earlier) continue;
    now.answer = status::timeout;
    return now;
  }
}

/// Offers a contribution to a session. If the contribution is short, tries to acquire the engine before the copy,
/// because the copy takes less time than waking a thread (20 µs). During a longer copy, the engine stays free, so that
/// the progress thread can serve the other ranks.
template <class Call>
status offer_by(driver& by, std::uint64_t copied_bytes, const Call& offer) {
  constexpr std::uint64_t k_short_offer = std::uint64_t{1} << 18;
  status answer = status::internal;
  const auto call = [&] {
    bool is_posted = false;
    answer = offer(&is_posted);
    return is_posted;
  };
  if (copied_bytes <= k_short_offer)
    by.run_posting(call);
  else if (call())
    by.run_posted();
  return answer;
}

inline status offer(driver& by, session& to, const session::weighted& one, round_no* round) {
  return offer_by(by, to.contribution_buffer().bytes(),
                  [&](bool* is_posted) { return to.offer(one, round, is_posted); });
}

/// Leaves the session, and runs the engine, because the engine must process the call.
inline void leave(driver& by, session& one) {
  one.leave();
  by.run_posted();
}

}  // namespace lsched
