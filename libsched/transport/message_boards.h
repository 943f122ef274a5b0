// This file implements boards (board.h) for transports without shared memory. Each commit is an agreement of the
// world's members (agreement.h). Members send their records to the world's first rank, which proposes the list of all
// records. The first rank refuses the commit if a member gives up the commit or has left. After a member has left, no
// later commit succeeds.
//
// To give up a commit, a member sends a request to the first rank. The first rank decides. Its decision may arrive when
// the member no longer waits.
//
//     member    record n ──▶  first: has all n?    ── all records ──▶  every member
//     member    give up n ─▶  first: lacks some n? ── refused ──────▶  every member; later records are dropped
//     member    left ──────▶  first: no record n?  ── refused ──────▶  every member
//     member    offer ─────▶  first: has all?      ── met ──────────▶  every member; a closed board sends `left`
//     member    ask n ─────▶  first: waits for n?  ── missing ─────▶  this member, whose errors name the missing rank
//     member    call n ────▶  every member; the agreement on the survivors follows (message_board_roll.cc)
//
// Every message begins with a `head`. A board is identified by its first rank and by its id on that rank. Messages for
// a closed board are dropped, and messages for a board that has not joined yet are kept.
//
// A rank that the transport has lost, or that has closed its endpoint, counts as a member that has left.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "libsched/transport/agreement.h"
#include "libsched/transport/board.h"
#include "libsched/transport/roll_call.h"

namespace lsched {

class message_board;

/// A transport implements this interface to transmit the messages of one rank's boards. The transport passes each
/// message that arrives to message_boards::take(). Messages between two ranks must arrive in order.
class board_carrier {
 public:
  virtual ~board_carrier() = default;

  /// The bytes of a message. The carrier may keep the pointer until the message has been sent.
  using content = std::shared_ptr<const std::vector<std::byte>>;

  /// Called when a board of this rank is connected to a board of a peer. The answer to an offer connects the boards, so
  /// offers and withdrawals may be sent before this call.
  virtual void begin_with(rank peer) = 0;
  /// Sends a message. Does nothing if the transport has failed or if the peer is lost. Never waits.
  virtual void send(rank peer, const content& bytes) = 0;
  /// Handles the messages that have arrived. `is_awaiting`: true if a board waits for a message. Returns the health of
  /// the transport (endpoint_liveness::health()).
  virtual status receive(bool is_awaiting) = 0;
  /// Returns false after the transport was closed in a way that forbids further messages.
  virtual bool can_send() const { return true; }
  /// Returns whether ranks can be lost. If not, members exchange messages with the first member only.
  virtual bool can_lose() const { return false; }
  /// Returns whether no further message of the peer will arrive, because the peer was lost or has closed its endpoint.
  virtual bool is_gone(rank peer) const {
    static_cast<void>(peer);
    return false;
  }
  /// Returns whether the peer is lost, but may still be alive on the other side of a network partition.
  virtual bool is_silent(rank peer) const {
    static_cast<void>(peer);
    return false;
  }
};

/// Manages the boards of one rank. Only one thread at a time may use an object of this class.
class message_boards {
 public:
  /// The carrier must outlive this object, and the object must outlive its boards.
  message_boards(rank self, board_carrier& carrier) : self_(self), carrier_(carrier) {}
  message_boards(const message_boards&) = delete;
  message_boards& operator=(const message_boards&) = delete;

  std::unique_ptr<message_board> open();

  /// Opens the board of all ranks, which must be the first board of every rank.
  std::unique_ptr<message_board> open_home(rank ranks);

  /// Returns true if any board waits for a message.
  bool is_awaiting() const { return awaiting_ != 0; }

  /// Returns true if an offer may be in flight to a rank that will never receive it.
  bool has_unanswered() const { return unanswered_ != 0; }

  /// Receives and handles messages. Returns the health of the transport.
  status advance();

  /// Handles a message that has arrived.
  void take(rank from, std::span<const std::byte> bytes);

 private:
  friend class message_board;

  enum class kind : std::uint32_t {
    record,
    give_up,
    commit,
    call,
    roll,
    left,
    ask,
    missing,
    offer,  // this and all further kinds are messages about offers
    withdraw,
    met,
    ask_offer,
    missing_offer
  };
  struct head {
    /// The board's id on the first rank. In `offer`, `withdraw` and `ask_offer`, the board's id on the sender.
    std::uint32_t board = 0;
    enum kind kind {};
    /// The number of the commit or of the roll call. In `met` and `missing_offer`, the id of the offered board. In
    /// other messages about offers, the key of the offer.
    std::uint64_t number = 0;
    rank first = k_no_rank;   ///< the board's first rank, as a rank of the launch
    rank member = k_no_rank;  ///< the sender; in `met`: the receiver
    rank missing = k_no_rank;
    std::uint32_t fresh = 0;  ///< in `call`: id of the sender's new board
    agreement::kind step{};   ///< step of the agreement on a commit or on the survivors
    status why = status::ok;  ///< reason of a refusal
  };
  static_assert(sizeof(head) <= 64);
  using identity = std::pair<rank, std::uint32_t>;  ///< the first rank of a board, and the board's id on that rank

  static board_carrier::content pack(const head& first, std::span<const std::byte> rest = {});
  void drop_strays();
  void take_offer(rank from, const head& news);
  void take_answer(rank from, const head& news);
  void send_missing_offer(rank from, const head& question);
  message_board* find_offered(std::uint64_t number, rank first) const;
  std::vector<std::uint32_t> offers_of(std::uint64_t key, std::span<const rank> members, rank* missing) const;

  const rank self_;
  board_carrier& carrier_;
  std::uint32_t next_number_ = 0;
  /// The boards, by identity. Until a board has joined, its identity is this rank and the board's id on this rank.
  std::map<identity, message_board*> boards_;
  std::size_t unjoined_ = 0;    ///< number of boards that have not joined
  std::size_t unanswered_ = 0;  ///< number of unanswered offers to other ranks
  std::size_t awaiting_ = 0;    ///< number of boards with an exchange or an offer in flight
  /// Offers from other ranks: the board's id on the offering rank, by key and offering rank.
  std::map<std::pair<std::uint64_t, rank>, std::uint32_t> offers_;
  /// Messages for boards that have not joined yet, with their senders
  std::multimap<identity, std::pair<rank, std::vector<std::byte>>> strays_;
};

class message_board final : public board {
 public:
  message_board(message_boards& of, std::uint32_t number);
  ~message_board() override;

  member_address address() const override { return {.far = own_number_}; }
  std::uint64_t number() const override { return number_of_first_; }
  status join(std::span<const rank> members, std::span<const member_address> all) override;
  status post(std::span<const std::byte> record, rank* missing) override;
  status gather(std::span<std::byte> all, rank* missing) override;
  void give_up(rank missing) override;
  void offer(std::uint64_t key, std::span<const rank> members) override;
  status meet(rank* missing) override;
  bool withdraw() override;
  status regroup(board& former) override;
  std::span<const rank> homes() const override { return members_; }

 private:
  friend class message_boards;

  /// Sends the messages of a board's agreements. One sender serves the agreements on commits. Another sender serves the
  /// agreements on survivors.
  struct agreement_sender final : roll_call::sender {
    agreement_sender(const message_board& from, enum message_boards::kind about) : of(from), kind(about) {}
    void send(rank member, const agreement::message& what) override;
    void send_answer(rank member, std::uint64_t roll, std::uint32_t fresh) override;
    bool is_silent(rank member) const override {
      return of.of_.carrier_.is_silent(of.members_[static_cast<std::size_t>(member)]);
    }
    const message_board& of;
    const enum message_boards::kind kind;
  };

  void await(bool now);
  bool has_joined() const { return !members_.empty(); }
  bool is_first() const { return self_ == 0; }
  board_carrier::content pack(const message_boards::head& about, std::span<const std::byte> rest = {}) const;
  void take(rank from, const message_boards::head& first, std::span<const std::byte> rest);
  void take_record(std::uint64_t number, rank member, std::span<const std::byte> record);
  void lose(rank member);
  void note_gone_members();
  void advance();
  void propose_if_known();
  void take_request(std::uint64_t number, rank missing);
  void refuse_commit(std::uint64_t number, const refusal& about);
  status connect_offers(rank* missing);
  rank find_missing() const;
  /// Returns the named member if its record is missing, else another member whose record is missing. If the commit was
  /// proposed, returns a member that has not accepted it yet.
  rank missing_or(rank named) const;
  /// On the first rank, returns a member without an offer, or k_no_rank.
  rank find_missing_offer();
  void say_left();
  void begin_to_wait();
  rank ask_missing();
  void send_missing(std::uint64_t number, rank member) const;
  void note_missing(rank missing);

  message_boards& of_;
  const std::uint32_t own_number_;
  std::vector<rank> members_{};  ///< for each member, its rank in the launch; empty until join()
  rank self_ = k_no_rank;        ///< this rank in the world
  std::uint32_t number_of_first_ = 0;
  bool is_awaiting_ = false;
  std::uint64_t key_ = 0;         ///< key of the current offer; 0: no offer
  std::vector<rank> offered_to_;  ///< ranks of the launch to which the board was offered

  // While a member waits for records or offers:
  std::chrono::steady_clock::time_point asks_at_{};  ///< when the next question is due, or when it was asked
  bool is_asking_ = false;                           ///< the first rank has not answered the question yet
  rank missing_ = k_no_rank;                         ///< missing member; on the first rank: member without an offer

  agreement_sender to_commit_{*this, message_boards::kind::commit};
  agreement commit_{};  ///< the current or the last exchange

  // Records of commit next_ on the first rank:
  std::uint64_t next_ = 1;
  std::vector<std::byte> records_;
  std::vector<bool> has_record_;

  // Defined in message_board_roll.cc:
  void answer_roll();
  status meet_survivors(rank* missing);
  status join_survivors();
  bool leave_roll();
  void end_roll();

  message_board* former_ = nullptr;  ///< after regroup(): the board whose survivors meet; else null
  bool has_answered_ = false;        ///< this board has answered a roll call of `former_`
  message_board* fresh_ = nullptr;   ///< the new board with which this rank takes part in a roll call of this board
  agreement_sender to_roll_{*this, message_boards::kind::roll};
  roll_call roll_{};
};

}  // namespace lsched
