// Point-to-point messages of a world, outside schedules.
//
// A mailbox has an edge to every other member and one from it, on which messages are rounds: the n-th message from a
// rank is round n. So messages between two ranks arrive in the order in which they were sent, and what a transport does
// for schedules (reading long messages where they are, credits, deaths) it does for messages.
//
//     post(send) ── queued for its receiver ── on its way ── ended
//     post(receive) ── queued ── matched ── brought ── ended
//     a message arrives ── announced (tag, length) ── matched, or kept in memory of the mailbox's own
//
// A receive is matched with the first message, in the order of each sender, that has its tag. A message that nobody
// has asked for is taken off its edge at once: what comes behind it may be what somebody waits for.
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

/// A message that an application sends or waits for. It stays where it is until it has ended.
struct posted_message {
  bool is_sent = false;
  rank peer = k_no_rank;        ///< whom to, or whom from; k_no_rank: anybody
  std::int64_t tag = 0;         ///< k_any_tag: any
  std::byte* memory = nullptr;  ///< of one that is sent only read
  std::uint64_t bytes = 0;      ///< to send, or room for what is received

  // Once it has ended, with a verdict of BOUNDS where what came was longer, and nothing of it is there:
  rank source = k_no_rank;  ///< whom it came from, or who is to blame
  std::int64_t tag_received = 0;
  std::uint64_t bytes_received = 0;
  bool is_refused = false;  ///< the mailbox does not exist: refusal() says why
  common_step progress{};
};

class mailbox final : public message_sink {
 public:
  /// Reserves its edges; why() answers what was wrong.
  mailbox(engine& runs, membership_ptr members);
  ~mailbox() override;
  mailbox(const mailbox&) = delete;
  mailbox& operator=(const mailbox&) = delete;

  const std::optional<failure>& why() const { return why_; }
  member_address address() const { return net_.address_of(id_); }

  /// The members have agreed: connects it to theirs, and moves what was posted meanwhile.
  status open(std::span<const member_address> all);
  /// They have not: all that is posted ends with this, now and later.
  void refuse(const failure& why);
  /// Any thread, once a message has ended that is_refused.
  const failure& refusal() const { return *refusal_; }

  /// Sends or receives as soon as it can be. Where this throws, nothing was posted.
  void post(posted_message& one);

  /// Takes back what has not begun to move: it has ended as CANCELLED. False: it moves, and will end by itself.
  bool take_back(posted_message& one);

  /// Returns the note for the ranks that wait for this one while it waits for the message.
  wait_note note_of(const posted_message& one) const;

  /// Describes why the message has not ended, and names the rank to blame.
  std::string describe_wait(const posted_message& one, rank* waits_for) const;

  /// Whether nothing is posted that has not ended.
  bool is_idle() const { return under_way_ == 0; }

  const membership& members() const override { return *members_; }
  bool owns(std::uint32_t instance) const override { return instance == id_; }
  void arrived(const completion& news) override;
  void lose(rank member) override;
  void leave(rank member, std::optional<round_no> last) override;
  void fail(status why, rank culprit) override;

 private:
  /// A message that came before anybody had asked for it.
  struct kept_message {
    rank source = k_no_rank;
    std::int64_t tag = 0;
    std::uint64_t bytes = 0;
    std::unique_ptr<std::byte[]> memory{};
    bool is_lost = false;  ///< there was no memory for it
  };

  /// What moves between this rank and another one.
  struct line {
    link_id out = k_no_link, in = k_no_link;
    round_no sent = 0, received = 0;
    std::deque<posted_message*> waiting{};  ///< to be sent; the first is on its way if `is_sending`
    bool is_sending = false;
    bool is_fetching = false;          ///< the announced message is being brought
    posted_message* target = nullptr;  ///< of that message; null: it is kept
    kept_message arriving{};
    std::optional<round_no> last{};                            ///< after this message none comes
    status out_verdict = status::ok, in_verdict = status::ok;  ///< why nothing moves any more
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
  void end_receives_from_anybody(rank culprit, status verdict);
  std::vector<rank> ranks_awaited_by(const posted_message& one) const;

  engine& engine_;
  endpoint& net_;
  const membership_ptr members_;
  const std::uint32_t id_;
  std::vector<line> lines_;  ///< by member
  std::optional<failure> why_{};
  bool is_linked_ = false;
  std::optional<failure> refusal_{};
  std::list<posted_message*> receives_;  ///< in the order in which they were posted
  std::list<kept_message> kept_;
  std::uint64_t under_way_ = 0;
  rank last_gone_ = k_no_rank;
};

}  // namespace lsched
