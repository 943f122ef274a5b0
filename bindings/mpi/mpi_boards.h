// Boards over MPI. The world's first rank settles: the others send it their records, and it sends each all records, or
// that the commit was given up, or that a member has left the world, without which no commit stands any more. Who gives
// up asks the first rank to say so; that may come late.
//
//     member    record n ──▶  first: has all n?    ── all records ──▶  every member
//     member    give up n ─▶  first: not yet?      ── given up ─────▶  every member; records that come later drop
//     member    left ──────▶  first: no record n?  ── gone ─────────▶  every member; the first one says left to all
//     member    offer ─────▶  first: has all?      ── met ──────────▶  every member; a closed board answers left
//
// Every message has its head in front. A board is known by its first rank's number for it; what is for a board that is
// closed is dropped, and what is for one that has not joined yet is kept.
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

/// The boards of one rank, and their messages, which have a tag of their own. One thread.
class mpi_boards {
 public:
  /// How they reach the endpoint: `note_sent` and `note_taken` count the messages with a peer, `fail` is told the code
  /// of a call that has failed.
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

  /// Whether anything is awaited or under way.
  bool is_busy() const { return awaiting_ != 0 || has_transfers(); }
  bool has_transfers() const { return !sends_.empty() || !receives_.empty(); }

  /// Whether an offer may still be on its way to a rank that does not look for it.
  bool has_unanswered() const { return unanswered_ != 0; }

  /// Takes what has come.
  void advance();
  /// Moves what is under way, and looks for nothing new.
  void advance_transfers();

  /// Leaves all memory to MPI, which may still use it.
  void abandon();

 private:
  friend class mpi_board;

  enum class kind : std::uint32_t { record, give_up, all, given_up, gone, left, offer, withdraw, met };
  struct head {
    std::uint32_t board;  ///< the first rank's number; of offers and their withdrawal, the sender's own
    enum kind kind;
    std::uint64_t number;  ///< of the commit; the key; of `met` the number of the offered board
    rank member;           ///< who sends; of `met` who is meant
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
  /// By first rank, and its number. Null: closed here, but the first rank has not said that it has left.
  std::map<std::pair<rank, std::uint32_t>, mpi_board*> boards_;
  std::size_t unanswered_ = 0;                                      ///< offers to others
  std::size_t awaiting_ = 0;                                        ///< boards with an exchange or an offer under way
  std::map<std::pair<std::uint64_t, rank>, std::uint32_t> offers_;  ///< by key and rank: the number of its board
  std::multimap<std::pair<rank, std::uint32_t>, content> strays_;   ///< for boards that have not joined yet
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

  /// How a commit was settled: with the records of all, or for whom it was given up, or who has left.
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
  std::vector<rank> members_{};        ///< at home, by rank of the world; empty until it has joined
  rank self_ = k_no_rank;              ///< in the world
  std::uint32_t number_of_first_ = 0;  ///< the first rank's number
  std::uint64_t number_ = 0;           ///< of the exchange that is under way, or of the last one
  bool is_awaiting_ = false;
  std::uint64_t key_ = 0;                        ///< of the offer; 0: none
  std::vector<rank> offered_to_;                 ///< the members, as in members_
  std::map<std::uint64_t, settlement> settled_;  ///< by number, what gather() has not answered yet
  bool has_first_left_ = false;

  // Of the first rank, for the commit after the last that is settled:
  std::uint64_t last_settled_ = 0;
  std::vector<std::byte> records_;
  std::vector<bool> has_record_;
  std::vector<bool> has_left_;
};

}  // namespace lsched
