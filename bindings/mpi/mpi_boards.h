// Boards over MPI. On a board the members of a world exchange records, to agree on commits
// (libsched/transport/board.h). The world's first rank decides the result of each commit. The other members send their
// records to the first rank, which sends one of three results to each member: all records, the commit was given up, or
// a member has left the world. After a member has left, no later commit succeeds. A member that gives up a commit
// requests this from the first rank. The first rank decides, and its decision may arrive when the member no longer
// waits.
//
//     member    record n ──▶  first: has all n?    ── all records ──▶  every member
//     member    give up n ─▶  first: not yet?      ── given up ─────▶  every member; later records are dropped
//     member    left ──────▶  first: no record n?  ── gone ─────────▶  every member; the first sends `left` to all
//     member    offer ─────▶  first: has all?      ── met ──────────▶  every member; a closed board sends `left`
//
// Every message begins with a head. A board is identified by its first rank and by its number on that rank. Messages
// for a closed board are dropped, and messages for a board that has not joined yet are kept.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "libsched/transport/board.h"

namespace lsched {

class mpi_board;

/// The boards of one rank, and their messages, which have a separate MPI tag. Used by one thread at a time.
class mpi_boards {
 public:
  /// Members and functions of the endpoint. `note_sent` and `note_taken` count the messages to and from a peer.
  /// `succeeded` handles the return code of an MPI call, and returns true if the call has succeeded.
  struct surroundings {
    MPI_Comm comm;
    rank self;
    int tag;
    std::function<void(rank peer)> begin_with;
    std::function<void(rank peer)> note_sent;
    std::function<void(rank peer)> note_taken;
    std::function<bool(int code)> succeeded;
    std::function<status()> health;
  };

  explicit mpi_boards(surroundings around) : around_(std::move(around)) {}
  mpi_boards(const mpi_boards&) = delete;
  mpi_boards& operator=(const mpi_boards&) = delete;

  std::unique_ptr<mpi_board> open();

  /// Returns true if any message is awaited or in flight.
  bool is_busy() const { return awaiting_ != 0 || has_transfers(); }
  bool has_transfers() const { return !sends_.empty() || !receives_.empty(); }

  /// Returns true if an offer may be in flight to a rank that will never receive it.
  bool has_unanswered() const { return unanswered_ != 0; }

  /// Receives and handles messages.
  void advance();
  /// Completes messages that are in flight, without receiving new messages.
  void advance_transfers();

  /// Leaks the memory of all transfers, because MPI may still use it.
  void abandon();

 private:
  friend class mpi_board;

  enum class kind : std::uint32_t { record, give_up, all, given_up, gone, left, offer, withdraw, met };
  struct head {
    std::uint32_t board;  ///< number on the first rank; in offers and withdrawals: number on the sender
    enum kind kind;
    std::uint64_t number;  ///< number of the commit; in offers: the key; in `met`: number of the offered board
    rank member;           ///< the sender; in `met`: the receiver
    rank missing;
  };
  using content = std::shared_ptr<std::vector<std::byte>>;
  struct transfer {
    MPI_Request request;
    content bytes;
    rank peer;
  };

  static content pack(const head& first, std::span<const std::byte> rest);
  void send(rank peer, const content& bytes);
  void receive_next(bool& found);
  void take(rank from, const content& bytes);
  bool take_offer(rank from, const head& news);
  void take_answer(rank from, const head& news);

  surroundings around_;
  std::uint32_t next_number_ = 0;
  /// Boards, by first rank and number on that rank. Null if this rank has closed the board, but the message `left` from
  /// the first rank has not arrived yet.
  std::map<std::pair<rank, std::uint32_t>, mpi_board*> boards_;
  std::size_t unanswered_ = 0;  ///< number of offers to other ranks without an answer
  std::size_t awaiting_ = 0;    ///< number of boards with an exchange or an offer in flight
  /// Offers from other ranks: number of the board on the offering rank, by key and offering rank.
  std::map<std::pair<std::uint64_t, rank>, std::uint32_t> offers_;
  std::multimap<std::pair<rank, std::uint32_t>, content> strays_;  ///< messages for boards that have not joined yet
  std::list<transfer> sends_, receives_;
};

class mpi_board final : public board {
 public:
  mpi_board(mpi_boards& of, std::uint32_t number);
  ~mpi_board() override;

  member_address address() const override { return {.far = own_number_}; }
  std::uint64_t number() const override { return number_of_first_; }
  status join(std::span<const rank> members, std::span<const member_address> all) override;
  status post(std::span<const std::byte> record, rank* missing) override;
  status gather(std::span<std::byte> all, rank* missing) override;
  void give_up(rank missing) override;
  void offer(std::uint64_t key, std::span<const rank> members) override;
  status meet(rank* missing) override;
  bool withdraw() override;

 private:
  friend class mpi_boards;

  /// The result of a commit: the records of all members, or the member `missing`. That member has left (`has_left`), or
  /// its record had not arrived when the commit was given up.
  struct settlement {
    std::vector<std::byte> records{};
    rank missing = k_no_rank;
    bool has_left = false;
  };

  void await(bool now);
  bool has_joined() const { return !members_.empty(); }
  bool is_first() const { return self_ == 0; }
  mpi_boards::content pack(enum mpi_boards::kind what, std::uint64_t number, rank missing,
                           std::span<const std::byte> rest = {}) const;
  void take(const mpi_boards::head& first, std::span<const std::byte> rest);
  void take_record(std::uint64_t number, rank member, std::span<const std::byte> record);
  void take_left(rank member);
  void settle_if_known();
  void settle(enum mpi_boards::kind how, rank missing);
  rank find_missing() const;
  void say_left();

  mpi_boards& of_;
  const std::uint32_t own_number_;
  std::vector<rank> members_{};  ///< members as ranks of the launch, by rank of the world; empty until join()
  rank self_ = k_no_rank;        ///< this rank in the world
  std::uint32_t number_of_first_ = 0;
  std::uint64_t number_ = 0;  ///< number of the current or the last exchange
  bool is_awaiting_ = false;
  std::uint64_t key_ = 0;                        ///< key of the current offer; 0: no offer
  std::vector<rank> offered_to_;                 ///< ranks of the launch to which the board was offered
  std::map<std::uint64_t, settlement> settled_;  ///< by commit: results that gather() will return
  bool has_first_left_ = false;

  // State of the first rank, which next decides commit last_settled_ + 1:
  std::uint64_t last_settled_ = 0;
  std::vector<std::byte> records_;
  std::vector<bool> has_record_;
  std::vector<bool> has_left_;
};

}  // namespace lsched
