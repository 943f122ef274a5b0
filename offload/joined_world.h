// A world that this process has joined: the sequence of its commits, and the teardown of its schedules. Many worlds may
// share one runtime.
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

/// A world that was made from another world, and the board for its commits.
struct new_world {
  membership_ptr members{};
  std::unique_ptr<board> meets{};
};

/// A commit that the ranks have yet to agree on. The caller of queue() removes the instances, also if the commit fails.
struct queued_commit {
  std::shared_ptr<schedule_commit> commit{};
  std::vector<instance*> instances{};  ///< the requested instance and its companions; empty if this rank was refused
};

class joined_world {
 public:
  /// Joins the world of all ranks of the transport; once. `process` must outlive this object. A commit fails if it
  /// takes longer than the timeout.
  joined_world(runtime& process, std::chrono::nanoseconds commit_timeout);

  /// Joins a world that was made from another world.
  joined_world(runtime& process, new_world made, std::chrono::nanoseconds commit_timeout);
  ~joined_world();
  joined_world(const joined_world&) = delete;
  joined_world& operator=(const joined_world&) = delete;

  world place() const { return members_->place(); }
  const membership& members() const { return *members_; }

  /// Queues a commit. Its instances exist when this returns, and take calls before the ranks agree. Any thread.
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

  /// Splits the world, and waits like await(). Returns the new world of this rank's colour, with null `members` if the
  /// colour is negative. If one rank passes a failure, the split fails on all ranks.
  result<new_world> split(const result<split_choice>& choice);

  /// Makes a world of these ranks, in this order. This rank is among them. Each of them, and no other rank, calls this
  /// with equal ranks and tag. Waits for them up to the timeout. Any thread; one call with equal ranks and tag at a
  /// time.
  result<new_world> split_ranks(std::span<const rank> ranks, std::int32_t tag);

  /// Makes a world of the members that are neither lost nor have closed this world. Each of them calls this. If a
  /// member is left out, all schedules of this world end. TIMEOUT names a live member that does not call. Any thread;
  /// one call at a time.
  result<new_world> shrink(driver::clock::time_point deadline);

  /// Publishes the progress of this rank's instances of another world, and takes over results that this rank lacks
  /// (handover.h). `unable`: the reason why this rank cannot continue, if any. Waits like await(). Any thread.
  std::optional<failure> hand_over(std::span<instance* const> from, const std::optional<failure>& unable);

  /// Cancels instances on all ranks (docs/reference/cancel.md); ignores null pointers. Then waits until the caller owns
  /// the memory again: 100 ms for peers, 2 s for the device, without a limit for this rank's own lane. BUSY: a peer
  /// still reads the memory. UNSUPPORTED: MPI still moves a long message. DEVICE: a device job hangs. Any thread.
  std::optional<failure> cancel(std::span<instance** const> gone);

  /// Removes instances one after the other and sets each pointer to null; ignores null pointers. Stops with BUSY if a
  /// round is outstanding, or if a peer still reads the memory of a failed instance, as in cancel(). After UNSUPPORTED
  /// or DEVICE all instances are removed. Any thread.
  std::optional<failure> remove(std::span<instance** const> gone);

  /// Returns whether the instance has failed. Its verdict may not be published yet, because peers still read this
  /// rank's memory.
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
  std::unique_ptr<commit_queue> commits_;  ///< for the engine's owner
};

}  // namespace lsched
