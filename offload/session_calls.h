// Calls of sessions (libsched/session/session.h) under a driver, which waits where they cannot.
#pragma once

#include "libsched/session/session.h"
#include "offload/driver.h"

namespace lsched {

/// Makes a call of a session until it is done or has failed. TIMEOUT after the deadline: the next such call goes on
/// from there.
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

/// Makes a call of a session that offers. Copying a short contribution takes no more time than waking a thread (20 us):
/// the caller owns the engine meanwhile. With a longer one the rank goes on serving the others.
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

inline status offer(driver& by, session& to, std::span<const source_part> contribution, round_no* round) {
  return offer_by(by, to.contribution_buffer().bytes(),
                  [&](bool* is_posted) { return to.offer(contribution, round, is_posted); });
}

/// Leaves, and lets the engine look at it.
inline void leave(driver& by, session& one) {
  one.leave();
  by.run_posted();
}

}  // namespace lsched
