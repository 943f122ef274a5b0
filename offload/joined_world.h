// A world of which this process is a member. The object runs the commits of the world (libsched/commit/commit.h), and
// removes its schedules. Several worlds may share one runtime.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libsched/commit/announcement.h"
#include "libsched/commit/commit_queue.h"
#include "libsched/commit/mailbox_commit.h"
#include "libsched/commit/meeting.h"
#include "libsched/commit/split.h"
#include "offload/open_objects.h"
#include "offload/runtime.h"

namespace lsched {

class carrying;
class handover;
class session;

/// A world that was created from another world, and the board on which its ranks exchange records for commits.
struct new_world {
  membership_ptr members{};
  std::unique_ptr<board> meets{};
};

/// A commit in progress. The caller of queue() must remove the instances, unless await() has removed them because the
/// commit failed.
struct queued_commit {
  std::shared_ptr<schedule_commit> commit{};
  std::vector<instance*> instances{};  ///< the requested instance and its companions; empty if the request is refused
};

class joined_world {
 public:
  /// Joins the world of all ranks of the transport. Construct at most one such object for a runtime. `process` must
  /// outlive this object. `commit_timeout` is the time after which a commit fails.
  joined_world(runtime& process, std::chrono::nanoseconds commit_timeout);

  /// Joins a world that was created from `parent`.
  joined_world(const joined_world& parent, new_world made);
  ~joined_world();
  joined_world(const joined_world&) = delete;
  joined_world& operator=(const joined_world&) = delete;

  world place() const { return members_->place(); }
  const membership& members() const { return *members_; }

  /// Queues a commit. The instances of the commit exist when this function returns, and rounds may be started at once.
  /// Any thread may call this function.
  queued_commit queue(const commit_request& request);

  /// Queues the commit of a mailbox. The commit fails on all ranks if `unable` is set. Any thread may call this
  /// function.
  std::shared_ptr<mailbox_commit> queue_mailbox(const std::optional<failure>& unable = std::nullopt);

  /// Sends the data of rank 0 to all members. If any rank passes a failure, all ranks return a failure. After a
  /// timeout, fails as await(queued_commit&). Any thread may call this function.
  result<announcement::data> announce(const std::string& purpose, const announcement::data& mine,
                                      const std::optional<failure>& unable);

  /// Begins a commit without an effect, by which all members agree to use this world. Any thread may call this
  /// function.
  std::shared_ptr<announcement> begin_admission();
  /// Waits for the end of the commit. Returns false after the deadline. Any thread may call this function.
  bool await(const announcement& made, driver::clock::time_point deadline);
  /// Asks the members to decide at once whether the commit succeeds. If they share memory, the commit has ended when
  /// this function returns. Otherwise the commit ends later. Any thread may call this function.
  void give_up(const announcement& made);
  /// Ends all waits of this rank in this world with PEER, because the ranks have been admitted to a larger world. The
  /// culprit is this rank. Any thread may call this function.
  void end_for_growth();

  /// Waits until all members agree on the mailbox. After the timeout, the commit fails as in await(queued_commit&). Any
  /// thread may call this function.
  std::optional<failure> await(mailbox_commit& made);

  /// Destroys a mailbox. Returns BUSY if a message is in flight. Any thread may call this function.
  status remove(std::shared_ptr<mailbox_commit>& gone);

  /// Waits until all members agree on the commit. After the timeout the commit fails on this rank, and on all members
  /// if they share memory. If the commit fails, removes the instances and returns the reason. Any thread may call this
  /// function.
  std::optional<failure> await(queued_commit& made);

  /// Splits the world, and waits until all members agree, as await() does. Returns the new world of this rank's colour,
  /// or a null `members` if the colour is negative. If any rank passes a failure, the split fails on all ranks.
  result<new_world> split(const result<split_choice>& choice);

  /// Creates a world of `ranks`, in this order. All listed ranks, and no others, must call this function with equal
  /// `ranks` and `tag`. Returns ARGUMENT if the list names a rank that does not exist, names a rank twice, or does not
  /// contain this rank. Waits at most for the commit timeout. Any thread may call this function, but calls with equal
  /// `ranks` and `tag` must not overlap.
  result<new_world> split_ranks(std::span<const rank> ranks, std::int32_t tag);

  /// Creates a world of the remaining members: those that are not lost and have not closed this world. Every remaining
  /// member must call this function. If any member does not remain, all schedules of this world end. If a live member
  /// does not call in time, returns TIMEOUT with the rank of that member. Any thread may call this function, but calls
  /// must not overlap.
  result<new_world> shrink(driver::clock::time_point deadline);

  /// Returns the request for a moved session's new instances.
  using request_maker = std::function<result<commit_request>()>;

  /// Moves a session of the world `from` to this world. The old instances fail and are removed. The instances of the
  /// request `anew()` replace them. All members of this world must call this function, or join() if they are not in
  /// `from`. If both worlds share a runtime, `from` must have lost ranks. If the session has moved, sets `*made` to the
  /// session's new instances. Even then, the function returns a failure if remove() fails for the old instances.
  /// Returns ARGUMENT, on this rank only, if `from` is this world, or if both worlds share a runtime and a rank of this
  /// world is not in `from`. A failure of remove() can also occur on this rank only. All other failures occur on all
  /// members. Any thread may call this function.
  std::optional<failure> carry(session& moved, joined_world& from, const request_maker& anew, queued_commit* made);

  /// Makes the instances of a session that other members carry() to this world from another runtime. Sets `*made` to
  /// the instances, which begin with the round after the last round of the others. Returns the number by which the
  /// others' sessions divide (session::ranks()). A failure occurs on all members. Any thread may call this function.
  result<std::uint64_t> join(result<commit_request> wanted, queued_commit* made);

  /// Cancels instances on all ranks (docs/reference/cancel.md); ignores null pointers. Then waits until the buffers of
  /// the instances are no longer used. The wait takes at most 100 ms for peers, and at most 2 s for the device. The
  /// wait for this rank's lane (its threads for arithmetic) has no limit. Returns BUSY if a peer still reads the
  /// memory, UNSUPPORTED if MPI still transfers a long message, and DEVICE if a device job hangs. Any thread may call
  /// this function.
  std::optional<failure> cancel(std::span<instance** const> gone);

  /// Removes instances one after the other and sets each pointer to null; ignores null pointers. Stops with BUSY if a
  /// round is outstanding, or if a peer still reads the memory of a failed instance. Even if UNSUPPORTED or DEVICE is
  /// returned (see cancel()), all instances are removed. Any thread may call this function.
  std::optional<failure> remove(std::span<instance** const> gone);

  /// Writes the lost members to `into`, in the order in which their losses were recorded, as far as there is room.
  /// Returns the number of lost members. Any thread may call this function.
  std::int32_t lost(std::span<rank> into) const;

  /// Returns true if the instance has failed, even if instance::verdict has no error yet. As long as peers still read
  /// this rank's memory, the verdict is not set.
  bool has_failed(const instance& one);

  bool is_in_its_process() const { return process_.is_in_its_process(); }

  /// Returns the labels of the instances and mailboxes that were queued and not removed. Does not use the engine or the
  /// transport, because MPI may already be finalised. Any thread may call this function.
  std::vector<std::string> open_labels() const { return open_.labels(); }

 private:
  std::optional<failure> await_end(commitment& made, bool* has_ended);
  result<new_world> await(std::unique_ptr<meeting> made, driver::clock::time_point deadline);
  std::optional<failure> await_readers(instance& given_up);
  std::optional<failure> await_end_of_reads(std::span<instance** const> all);
  using handover_maker = std::function<std::shared_ptr<handover>(std::uint64_t number)>;
  std::optional<failure> hand_over(const handover_maker& create, std::shared_ptr<handover>* made);
  std::optional<failure> exchange_results(handover& of);
  std::optional<failure> await(mailbox_commit& of, posted_message& one);

  runtime& process_;
  const membership_ptr members_;
  const std::chrono::nanoseconds commit_timeout_;
  open_objects open_;
  std::unique_ptr<commit_queue> commits_;  ///< used by the engine's owner only
};

}  // namespace lsched
