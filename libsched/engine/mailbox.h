// A mailbox sends and receives point-to-point messages of a world. These messages do not belong to schedules.
//
// A mailbox has two edges (connections of the transport) with every other member, one in each direction. The n-th
// message on an edge is round n, so messages between two ranks arrive in order. The transport handles messages like
// rounds of schedules: it reads long messages in the sender's memory, limits the messages in flight by credits, and
// detects dead ranks.
//
//     post(send) ── queued for its receiver ── in flight ── ended
//     post(receive) ── queued ── matched ── fetched ── ended
//     a message arrives ── announced (tag, length) ── matched, or kept in memory of the mailbox
//
// A receive matches the sender's first unmatched message with the receive's tag. A message without a matching receive
// is unexpected. The mailbox copies it from the edge at once, because the application can post a receive for a later
// message on this edge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "libsched/engine/engine.h"
#include "libsched/engine/engine_task.h"
#include "libsched/engine/message_sink.h"
#include "libsched/transport/membership.h"

namespace lsched {

inline constexpr std::int64_t k_any_tag = -1;
inline constexpr std::uint64_t k_longest_message = std::uint64_t{1} << 45;

/// A send or receive of the application. The object must not be moved or destroyed until the message has ended.
struct posted_message {
  bool is_sent = false;
  rank peer = k_no_rank;        ///< receiver of a send, or sender of a receive; k_no_rank: any sender
  std::int64_t tag = 0;         ///< k_any_tag: any tag
  std::byte* memory = nullptr;  ///< send: the message, which is only read; receive: the buffer
  std::uint64_t bytes = 0;      ///< send: length of the message; receive: length of the buffer

  // The following members are valid once the message has ended. If the received message was longer than `bytes`, the
  // error is BOUNDS, and the data is dropped.
  rank source = k_no_rank;  ///< sender of the message; after an error, the rank to blame
  std::int64_t tag_received = 0;
  std::uint64_t bytes_received = 0;
  bool is_refused = false;  ///< the commit of the mailbox has failed: refusal() has the reason
  common_step progress{};
};

class mailbox final : public message_sink {
 public:
  /// Reserves the edges. On failure, why() has the reason.
  mailbox(engine& runs, membership_ptr members);
  ~mailbox() override;
  mailbox(const mailbox&) = delete;
  mailbox& operator=(const mailbox&) = delete;

  const std::optional<failure>& why() const { return why_; }
  member_address address() const { return net_.address_of(id_); }

  /// Connects the mailbox to the other members' mailboxes, after the commit has succeeded. Starts the messages that
  /// were posted earlier.
  status open(std::span<const member_address> all);
  /// Fails all messages that have been or will be posted. Called if the commit of the mailbox has failed.
  void refuse(const failure& why);
  /// Returns the reason passed to refuse(). Any thread may call this once a message with `is_refused` has ended.
  const failure& refusal() const { return *refusal_; }

  /// Posts a send or receive. If post() throws, nothing was posted.
  void post(posted_message& one);

  /// Withdraws a message whose transfer has not begun. The message then ends with CANCELLED. If the transfer has begun,
  /// returns false, and the message ends normally.
  bool take_back(posted_message& one);

  /// Returns the wait note that this rank publishes while it waits for the message.
  wait_note note_of(const posted_message& one) const;

  /// Describes what the message waits for, and sets `*waits_for` to the rank to blame.
  std::string describe_wait(const posted_message& one, rank* waits_for) const;

  /// Returns whether every posted message has ended.
  bool is_idle() const { return under_way_ == 0; }

  const membership& members() const override { return *members_; }
  bool owns(std::uint32_t instance) const override { return instance == id_; }
  void arrived(const completion& news) override;
  void lose(rank member) override;
  void leave(rank member, std::optional<round_no> last) override;
  bool fail(status why, rank culprit) override;

  /// Ends all messages with `why`, also those whose transfer has begun. Receive buffers are no longer written. Peers
  /// may still read the memory of a send, so that memory must outlive the mailbox.
  void give_up(status why);

 private:
  /// An unexpected message: no matching receive was posted when the message arrived.
  struct kept_message {
    rank source = k_no_rank;
    std::int64_t tag = 0;
    std::uint64_t bytes = 0;
    std::unique_ptr<std::byte[]> memory{};
    bool is_lost = false;  ///< the message was dropped, because no memory was left
  };

  /// The edges to and from another member, with their messages.
  struct line {
    link_id out = k_no_link, in = k_no_link;
    round_no sent = 0, received = 0;
    std::deque<posted_message*> waiting{};  ///< posted sends; the first is in flight if `is_sending`
    bool is_sending = false;
    bool is_fetching = false;          ///< the transport is copying the announced message
    posted_message* target = nullptr;  ///< receive that matches the announced message; null: the message is kept
    kept_message arriving{};
    std::optional<round_no> last{};                            ///< round of the last message, once the peer has left
    bool is_reported = false;                                  ///< a receive from any sender failed due to this loss
    status out_verdict = status::ok, in_verdict = status::ok;  ///< if not ok: the error that has ended this direction
  };

  line& line_of(rank peer) { return lines_[static_cast<std::size_t>(peer)]; }
  rank self() const { return members_->place().self; }
  bool has_others() const;

  void queue(posted_message& one);
  void end(posted_message& one, status verdict);
  void end_as_lost(posted_message& one, rank peer, status verdict);
  void deliver(posted_message& to, const kept_message& from);
  posted_message* take_receive(rank source, std::int64_t tag);
  void send_to_self(posted_message& one);
  void send_waiting(rank peer);
  void listen(rank peer);
  bool take_announced(rank peer, const arrival& news);
  void take_fetched(rank peer);
  void take_what_has_come(rank peer);
  void end_sends(rank peer, status verdict);
  void end_receives(rank peer, status verdict);
  bool end_receives_from_anybody(rank culprit, status verdict);
  void end_all(status why, rank blamed, bool with_sends);
  std::vector<rank> ranks_awaited_by(const posted_message& one) const;

  engine& engine_;
  endpoint& net_;
  const membership_ptr members_;
  const std::uint32_t id_;
  std::vector<line> lines_;  ///< indexed by member
  std::optional<failure> why_{};
  bool is_linked_ = false;
  std::optional<failure> refusal_{};
  std::list<posted_message*> receives_;  ///< posted receives, in posting order
  std::list<kept_message> kept_;
  std::uint64_t under_way_ = 0;
  rank last_gone_ = k_no_rank;
};

}  // namespace lsched
