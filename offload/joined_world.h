// A world that this process is a rank of: the sequence of its commits, and how its schedules end. Many worlds may share
// one runtime.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libsched/commit/commit_queue.h"
#include "libsched/commit/handover.h"
#include "libsched/commit/mailbox_commit.h"
#include "libsched/commit/meeting.h"
#include "libsched/commit/split.h"
#include "offload/open_objects.h"
#include "offload/runtime.h"

namespace lsched {

/// A world that has come of another one, and where its members meet.
struct new_world {
  membership_ptr members{};
  std::unique_ptr<board> meets{};
};

/// What the ranks have yet to agree upon: whoever has asked for it removes the instances, whatever they agree.
struct queued_commit {
  std::shared_ptr<schedule_commit> commit{};
  std::vector<instance*> instances{};  ///< that of the request, and its companions; none if this rank was refused
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

  /// Queues a commit. What it makes is there when this returns, and takes calls, whatever the others do. Any thread.
  queued_commit queue(const commit_request& request);

  /// Queues the commit of a mailbox likewise. Any thread.
  std::shared_ptr<mailbox_commit> queue_mailbox();

  /// Waits for all members to agree upon it, up to the timeout, which fails it on all of them. Any thread.
  std::optional<failure> await(mailbox_commit& made);

  /// Lets go of a mailbox. BUSY: a message is under way. Any thread.
  status remove(std::shared_ptr<mailbox_commit>& gone);

  /// Waits for all members to agree upon it, up to the timeout; which fails it on all of them. Where it does not stand,
  /// answers why, and removes the instances. Any thread.
  std::optional<failure> await(queued_commit& made);

  /// Splits the world, waiting likewise: the new world of this rank's colour, or without members where that is
  /// negative. A choice that is a failure fails it for all.
  result<new_world> split(const result<split_choice>& choice);

  /// A world of these ranks, in this order, whom this one is among and each of whom calls this with the same ranks and
  /// tag; no other need know. Waits for them up to the timeout. Any thread, one call of the same ranks and tag at a
  /// time.
  result<new_world> split_ranks(std::span<const rank> ranks, std::int32_t tag);

  /// The world of those members that are neither lost nor have closed this one; each of them calls it. Where that
  /// leaves anybody out, what runs in this world ends. TIMEOUT names a member that is there and does not call. Any
  /// thread, one call at a time.
  result<new_world> shrink(driver::clock::time_point deadline);

  /// Tells the other members how far this rank has come with instances of another world, and takes over what it lacks
  /// of theirs (handover.h). Waits like a commit. Any thread.
  std::optional<failure> hand_over(std::span<instance* const> from, const std::optional<failure>& unable);

  /// Gives instances up, on all ranks (docs/reference/cancel.md); null ones are passed over. Then waits, at most
  /// 100 ms, until this rank's memory is the caller's again: else BUSY, by a peer that still reads it, UNSUPPORTED, or
  /// DEVICE, by one that hangs. Any thread.
  std::optional<failure> cancel(std::span<instance** const> gone);

  /// Removes instances one after the other and makes each pointer null; null ones are passed over. BUSY ends it: a
  /// round is outstanding, or, of one that has failed, as cancel(). After UNSUPPORTED or DEVICE all are gone. Any
  /// thread.
  std::optional<failure> remove(std::span<instance** const> gone);

  /// Whether the instance has failed, although its verdict may wait for peers that read this rank's memory.
  bool has_failed(const instance& one);

  /// Returns the labels of the instances and mailboxes that were queued and not removed. Uses neither engine nor
  /// transport, because MPI may be finalised by now. Any thread.
  std::vector<std::string> open_labels() const { return open_.labels(); }

 private:
  std::optional<failure> await_end(commitment& made, bool* has_ended);
  result<new_world> await(std::unique_ptr<meeting> made, driver::clock::time_point deadline);
  std::optional<failure> await_readers(instance& given_up);

  runtime& process_;
  const membership_ptr members_;
  const std::chrono::nanoseconds commit_timeout_;
  open_objects open_;
  std::unique_ptr<commit_queue> commits_;  ///< the engine's owner's
};

}  // namespace lsched
