// Boards over MPI. The world's first rank settles each commit. The other members send their records to the first rank.
// The first rank sends each member all records, or that the commit was given up, or that a member has left the world.
// After a member has left, no commit stands any more. A member that gives up asks the first rank to give up the commit.
// The decision may arrive late.
//
//     member    record n ──▶  first: has all n?    ── all records ──▶  every member
//     member    give up n ─▶  first: not yet?      ── given up ─────▶  every member; records that come later drop
//     member    left ──────▶  first: no record n?  ── gone ─────────▶  every member; the first sends left to all
//     member    offer ─────▶  first: has all?      ── met ──────────▶  every member; a closed board sends left
//
// Every message begins with a head. A board is identified by its first rank's number. Messages for a closed board are
// dropped. Messages for a board that is yet to join are kept.
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

/// The boards of one rank, and their messages, which have a tag of their own. One thread at a time.
class mpi_boards {
 public:
  /// Functions of the endpoint. `note_sent` and `note_taken` count the messages with a peer. `succeeded` receives the
  /// code of each call of MPI.
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

  /// Returns whether any message is awaited or in flight.
  bool is_busy() const { return awaiting_ != 0 || has_transfers(); }
  bool has_transfers() const { return !sends_.empty() || !receives_.empty(); }

  /// Returns whether an offer may still be in flight to a rank that does not receive it.
  bool has_unanswered() const { return unanswered_ != 0; }

  /// Receives and handles messages.
  void advance();
  /// Completes messages that are in flight, without looking for new messages.
  void advance_transfers();

  /// Leaves all memory to MPI, which may still use it.
  void abandon();

 private:
  friend class mpi_board;

  enum class kind : std::uint32_t { record, give_up, all, given_up, gone, left, offer, withdraw, met };
  struct head {
    std::uint32_t board;  ///< the first rank's number; in offers and withdrawals the sender's own number
    enum kind kind;
    std::uint64_t number;  ///< of the commit; in offers the key; in `met` the number of the offered board
    rank member;           ///< the sender; in `met` the receiver
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
  /// Boards by first rank and that rank's number. Null: closed here, but the first rank's `left` is yet to arrive.
  std::map<std::pair<rank, std::uint32_t>, mpi_board*> boards_;
  std::size_t unanswered_ = 0;                                      ///< offers to other ranks without an answer
  std::size_t awaiting_ = 0;                                        ///< boards with an exchange or an offer in flight
  std::map<std::pair<std::uint64_t, rank>, std::uint32_t> offers_;  ///< by key and rank: the number of the rank's board
  std::multimap<std::pair<rank, std::uint32_t>, content> strays_;   ///< messages for boards that are yet to join
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

  /// The result of a commit: the records of all members, the member for which it was given up, or the member that has
  /// left.
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
  std::vector<rank> members_{};  ///< home ranks, by rank of the world; empty until the board has joined
  rank self_ = k_no_rank;        ///< this rank in the world
  std::uint32_t number_of_first_ = 0;
  std::uint64_t number_ = 0;  ///< of the current or the last exchange
  bool is_awaiting_ = false;
  std::uint64_t key_ = 0;                        ///< of the offer; 0: none
  std::vector<rank> offered_to_;                 ///< home ranks of the members
  std::map<std::uint64_t, settlement> settled_;  ///< by number: results that gather() is yet to return
  bool has_first_left_ = false;

  // State of the first rank, for the commit after the last that is settled:
  std::uint64_t last_settled_ = 0;
  std::vector<std::byte> records_;
  std::vector<bool> has_record_;
  std::vector<bool> has_left_;
};

}  // namespace lsched
