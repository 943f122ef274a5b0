// A world that this process is a rank of: the sequence of its commits, and how its schedules end.
//
// Many worlds may share one runtime. Today there is one, whose ranks are those of the runtime's endpoint.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "libsched/engine/commit.h"
#include "libsched/session/session.h"
#include "libsched/transport/shm/shm_segment.h"
#include "offload/cores.h"
#include "offload/runtime.h"

namespace lsched {

class joined_world {
 public:
  /// `process` outlives the world. Commits that take longer than the timeout fail.
  joined_world(runtime& process, std::chrono::nanoseconds commit_timeout)
      : process_(process), commit_timeout_(commit_timeout) {}
  joined_world(const joined_world&) = delete;
  joined_world& operator=(const joined_world&) = delete;

  world place() const { return process_.net().place(); }

  /// Commits, waiting for all ranks up to the timeout. A number whose place an older schedule has at some rank's
  /// endpoint is passed over, by all ranks alike. STATE after a commit that timed out: no later one can match. Any
  /// thread, one after the other.
  result<instance*> commit(const commit_request& request);

  /// Removes instances one after the other and makes each pointer null; null ones are passed over. The first status
  /// that is not OK ends it: BUSY, a round is outstanding. Any thread.
  status remove(std::span<instance** const> gone);

  /// That were committed and not removed.
  std::uint64_t instances() const { return instances_.load(); }

 private:
  result<instance*> commit_once(const commit_request& request);

  runtime& process_;
  const std::chrono::nanoseconds commit_timeout_;
  std::atomic<std::uint64_t> instances_{0};
  std::mutex commit_guard_;
  bool is_out_of_step_ = false;  ///< a commit timed out
};

// --- what a rank shares its machine with ---

struct neighbourhood {
  machine_share share{};
  rank ranks_per_core = 1;    ///< rounded up, on the machine of the world where it is worst; equal on all ranks
  std::vector<rank> nodes{};  ///< by rank of the world, a number that those who share memory share; empty: all do
};

/// Of a world whose ranks are those of one segment, and of one machine. With `ranks_per_node`, neighbours play nodes of
/// that many, although they share memory; 0: they do not.
inline neighbourhood neighbourhood_of(const shm_segment& segment, rank ranks_per_node) {
  const auto ranks = static_cast<unsigned>(segment.ranks());
  const unsigned cores = segment.cores() != 0 ? segment.cores() : usable_cores();
  neighbourhood all{{.ranks = ranks, .cores = cores}, static_cast<rank>(ranks_per_core(ranks, cores))};
  for (rank r = 0; ranks_per_node != 0 && ranks_per_node < segment.ranks() && r < segment.ranks(); ++r)
    all.nodes.push_back(r / ranks_per_node);
  return all;
}

/// Waits until every rank of the segment has opened its endpoint: the first commit looks at all of them. TIMEOUT names
/// a rank that has not come within the limit.
std::optional<failure> wait_for_ranks(shm_segment& segment, std::chrono::nanoseconds limit);

// --- calls of sessions (libsched/session/session.h) under a driver, which waits where they cannot ---

/// Makes a call of a session until it is done or has failed. TIMEOUT after the deadline: the next such call goes on
/// from there.
template <class Call>
call_progress complete(driver& by, driver::clock::time_point deadline, const Call& call) {
  for (;;) {
    call_progress now = call();
    if (now.answer != status::pending) return now;
    if (by.wait(*now.awaited, now.round, deadline) != status::timeout) continue;
    now.answer = status::timeout;
    return now;
  }
}

/// Offers to a session. Copying a short contribution takes no more time than waking a thread (20 us): the caller owns
/// the engine meanwhile. With a longer one the rank goes on serving the others.
inline status offer(driver& by, session& to, std::span<const source_part> contribution, round_no* round) {
  constexpr std::uint64_t k_short_offer = std::uint64_t{1} << 18;
  status answer = status::internal;
  const auto call = [&] {
    bool is_posted = false;
    answer = to.offer(contribution, round, &is_posted);
    return is_posted;
  };
  if (to.contribution_buffer().bytes() <= k_short_offer)
    by.run_posting(call);
  else if (call())
    by.run_posted();
  return answer;
}

/// Leaves, and lets the engine look at it.
inline void leave(driver& by, session& one) {
  one.leave();
  by.run_posted();
}

}  // namespace lsched
