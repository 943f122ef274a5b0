// A world that this process is a rank of: the sequence of its commits, and how its schedules end.
//
// Many worlds may share one runtime. Today there is one, whose ranks are those of the runtime's endpoint.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <span>

#include "libsched/engine/commit.h"
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

  /// Commits, waiting for all ranks up to the timeout. STATE after a commit that timed out: no later one can match. Any
  /// thread, one after the other.
  result<instance*> commit(const commit_request& request);

  /// Gives instances up, on all ranks (docs/cancel.md); null ones are passed over. Then waits, at most 100 ms, until
  /// this rank's memory is the caller's again: else BUSY, by a peer that still reads it, or UNSUPPORTED. Any thread.
  std::optional<failure> cancel(std::span<instance** const> gone);

  /// Removes instances one after the other and makes each pointer null; null ones are passed over. BUSY ends it: a
  /// round is outstanding, or, of one that has failed, as cancel(). After UNSUPPORTED all are gone. Any thread.
  std::optional<failure> remove(std::span<instance** const> gone);

  /// That were committed and not removed. Asks neither engine nor transport: MPI may be finalised by now. Any thread.
  std::uint64_t instances() const { return instances_.load(); }

 private:
  std::optional<failure> await_readers(instance& given_up);

  runtime& process_;
  const std::chrono::nanoseconds commit_timeout_;
  std::atomic<std::uint64_t> instances_{0};
  std::mutex commit_guard_;
  std::optional<failure> out_of_step_;  ///< why no commit can succeed any more
};

}  // namespace lsched
