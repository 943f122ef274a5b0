// A world that this process is a rank of: the sequence of its commits, and how its schedules end. Many worlds may share
// one runtime.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>

#include "libsched/engine/commit_queue.h"
#include "libsched/engine/split.h"
#include "offload/runtime.h"

namespace lsched {

/// A world that has come of another one, and where its members meet.
struct new_world {
  membership_ptr members{};
  std::unique_ptr<board> meets{};
};

class joined_world {
 public:
  /// The world of all ranks of the transport, once. `process` outlives it. Commits that take longer than the timeout
  /// fail.
  joined_world(runtime& process, std::chrono::nanoseconds commit_timeout);

  /// One that has come of a split.
  joined_world(runtime& process, new_world made, std::chrono::nanoseconds commit_timeout);
  ~joined_world();
  joined_world(const joined_world&) = delete;
  joined_world& operator=(const joined_world&) = delete;

  world place() const { return members_->place(); }
  const membership& members() const { return *members_; }

  /// Commits, waiting for all members up to the timeout; which fails it on all of them. Any thread.
  result<instance*> commit(const commit_request& request);

  /// Splits the world, likewise: the new world of this rank's colour, or without members where that is negative.
  /// A choice that is a failure fails it for all.
  result<new_world> split(const result<split_choice>& choice);

  /// Gives instances up, on all ranks (docs/cancel.md); null ones are passed over. Then waits, at most 100 ms, until
  /// this rank's memory is the caller's again: else BUSY, by a peer that still reads it, or UNSUPPORTED. Any thread.
  std::optional<failure> cancel(std::span<instance** const> gone);

  /// Removes instances one after the other and makes each pointer null; null ones are passed over. BUSY ends it: a
  /// round is outstanding, or, of one that has failed, as cancel(). After UNSUPPORTED all are gone. Any thread.
  std::optional<failure> remove(std::span<instance** const> gone);

  /// That were committed and not removed. Asks neither engine nor transport: MPI may be finalised by now. Any thread.
  std::uint64_t instances() const { return instances_.load(); }

 private:
  template <class Commit>
  std::optional<failure> await(const Commit& made);
  std::optional<failure> await_readers(instance& given_up);

  runtime& process_;
  const membership_ptr members_;
  const std::chrono::nanoseconds commit_timeout_;
  std::atomic<std::uint64_t> instances_{0};
  std::unique_ptr<commit_queue> commits_;  ///< the engine's owner's
};

}  // namespace lsched
