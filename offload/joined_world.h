// A world that this process has joined: the sequence of its commits, and the teardown of its schedules. In a commit all
// ranks of the world agree on a new schedule. Many worlds may share one runtime.
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

/// A world that was made from another world, and the board on which the world's ranks exchange records for commits.
struct new_world {
  membership_ptr members{};
  std::unique_ptr<board> meets{};
};

/// A commit that the ranks have yet to agree on. The caller of queue() must remove the instances, unless await() has
/// removed them because the commit failed.
struct queued_commit {
  std::shared_ptr<schedule_commit> commit{};
  std::vector<instance*> instances{};  ///< the requested instance and its companions; empty if this rank was refused
};

class joined_world {
 public:
  /// Joins the world of all ranks of the transport. Construct at most one such object for a runtime. `process` must
  /// outlive this object. A commit fails if it takes longer than the timeout.
  joined_world(runtime& process, std::chrono::nanoseconds commit_timeout);

  /// Joins a world that was made from another world.
  joined_world(runtime& process, new_world made, std::chrono::nanoseconds commit_timeout);
  ~joined_world();
  joined_world(const joined_world&) = delete;
  joined_world& operator=(const joined_world&) = delete;

  world place() const { return members_->place(); }
  const membership& members() const { return *members_; }

  /// Queues a commit. When this function returns, the instances of the commit exist. They accept calls for rounds even
  /// before the ranks have agreed. Any thread.
  queued_commit queue(const commit_request& request);

  /// Queues the commit of a mailbox. Any thread.
  std::shared_ptr<mailbox_commit> queue_mailbox();

  /// Waits until all members agree on the mailbox. After the timeout the commit fails on all members. Any thread.
  std::optional<failure> await(mailbox_commit& made);

  /// Destroys a mailbox. BUSY: a message is in flight. Any thread.
  status remove(std::shared_ptr<mailbox_commit>& gone);

  /// Waits until all members agree on the commit. After the timeout the commit fails on all members. If it fails,
  /// removes the instances and returns the reason. Any thread.
  std::optional<failure> await(queued_commit& made);

  /// Splits the world, and waits until all members agree, as await() does. Returns the new world of this rank's colour,
  /// with null `members` if the colour is negative. If one rank passes a failure, the split fails on all ranks.
  result<new_world> split(const result<split_choice>& choice);

  /// Makes a world of `ranks`, in this order. `ranks` must contain this rank. Exactly the listed ranks must call this
  /// function, with equal `ranks` and `tag`. Waits for the listed ranks up to the commit timeout. Any thread; one call
  /// with equal `ranks` and `tag` at a time.
  result<new_world> split_ranks(std::span<const rank> ranks, std::int32_t tag);

  /// Makes a world of the remaining members: all members that are neither lost nor have closed this world. Every
  /// remaining member must call this function. If the new world lacks a member of this world, all schedules of this
  /// world end. Returns TIMEOUT, with the rank of a live member, if this member does not call in time. Any thread; one
  /// call at a time.
  result<new_world> shrink(driver::clock::time_point deadline);

  /// Continues the instances `from` of another world in this world (libsched/commit/handover.h). Publishes the progress
  /// of this rank's instances, and receives the results that this rank lacks. `unable`: the reason why this rank cannot
  /// continue, if any. Waits until all members agree, as await() does. Any thread.
  std::optional<failure> hand_over(std::span<instance* const> from, const std::optional<failure>& unable);

  /// Cancels instances on all ranks (docs/reference/cancel.md); ignores null pointers. Then waits until nothing uses
  /// the buffers of the instances any more: at most 100 ms for peers, at most 2 s for the device, and without a limit
  /// for this rank's own lane. BUSY: a peer still reads the memory. UNSUPPORTED: MPI still moves a long message.
  /// DEVICE: a device job hangs. Any thread.
  std::optional<failure> cancel(std::span<instance** const> gone);

  /// Removes instances one after the other and sets each pointer to null; ignores null pointers. Stops with BUSY if a
  /// round is outstanding, or if a peer still reads the memory of a failed instance, as in cancel(). If the error is
  /// UNSUPPORTED or DEVICE, all instances are removed nevertheless. Any thread.
  std::optional<failure> remove(std::span<instance** const> gone);

  /// Returns whether the instance has failed. The error may not be published in instance::verdict yet, because peers
  /// still read this rank's memory.
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
  std::unique_ptr<commit_queue> commits_;  ///< used by the engine's owner only
};

}  // namespace lsched
