// A board: the place where the members of a world exchange the records of their commits, and decide whether a commit
// stands.
//
// For each commit, every member posts a record and gathers the records of all members. One decision holds for all
// members. A commit stands as soon as any member has gathered all records. A commit fails if a member gives up first.
// So no member commits what another member has given up, and the next commit may stand again. (docs/inside/worlds.md)
//
// Thread safety: only the thread that owns the engine calls a board. The endpoint's poll() advances exchanges. Ranks
// are ranks of the world.
//
// Every implementation passes tests/conformance/endpoint_exam.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

/// The address of one rank's end of an object that the members of a world create together. Only the transport
/// interprets the fields.
struct member_address {
  std::uint64_t near = 0;  ///< address for ranks that share memory
  std::uint64_t far = 0;   ///< address for ranks that exchange messages
  friend bool operator==(const member_address&, const member_address&) = default;
};

class board {
 public:
  static constexpr std::size_t record_bytes = 640;

  /// Leaves the world. Members that wait for a record of this rank notice the departure.
  virtual ~board() = default;

  virtual member_address address() const = 0;

  /// Returns a number that is equal on the boards of all members. No other open board of any member has this number.
  /// The board must have joined.
  virtual std::uint64_t number() const = 0;

  /// Connects the board to the boards of the world's members. `members` and `all` hold each member's home rank and
  /// board address, by rank of the world. Called once, before the functions below. ARGUMENT: an address holds no board,
  /// or the board was opened for fewer members.
  virtual status join(std::span<const rank> members, std::span<const member_address> all) = 0;

  /// Used instead of join() if only the members take part, so that no member knows the addresses of the other boards.
  /// Each member offers its board under the same key, and the first member connects the boards. A rank has at most one
  /// offer per key at a time. The key is not 0 and below k_end_of_keys.
  virtual void offer(std::uint64_t key, std::span<const rank> members) = 0;
  static constexpr std::uint64_t k_end_of_keys = std::uint64_t{1} << 62;

  /// Returns PENDING until all members have offered their boards. *missing is then a member without an offer, if known.
  /// OK: the board has joined. PEER: *missing has closed its endpoint. This rank's offer is withdrawn unless the offer
  /// was accepted meanwhile.
  virtual status meet(rank* missing) = 0;

  /// Withdraws the offer. Returns false if the offer has been accepted. Then meet() returns OK, possibly later. A
  /// transport without shared memory may close an offer that was already accepted. Then the other members learn that
  /// this rank has left.
  virtual bool withdraw() = 0;

  /// Used instead of offer() after members of `former` were lost or have left. All other members meet, and homes() then
  /// returns their home ranks. Each of these members calls this on a board that was opened at the same endpoint for as
  /// many members as `former` has. meet() returns TIMEOUT if a member has withdrawn because of *missing, a rank of
  /// `former`. UNSUPPORTED: the transport does not survive the loss of a rank. (docs/reference/shrink.md)
  virtual status regroup(board& former) {
    static_cast<void>(former);
    return status::unsupported;
  }
  /// Returns the home rank of each member, by rank of the world, after the board has regrouped.
  virtual std::span<const rank> homes() const { return {}; }

  /// Starts the next exchange with this rank's record of at most record_bytes, padded with zeros. The previous exchange
  /// must have ended. PENDING: no memory for the record is free yet, because *missing is two commits behind.
  virtual status post(std::span<const std::byte> record, rank* missing) = 0;

  /// Returns PENDING until the exchange has ended. *missing is then a member without a record, if known. OK: the
  /// commit stands, and `all` holds the records by rank, record_bytes each. TIMEOUT: the commit was given up because
  /// *missing had not posted. PEER: *missing has left the world and will not post, so the commit stands on no rank.
  virtual status gather(std::span<std::byte> all, rank* missing) = 0;

  /// Stops waiting for `missing` in an exchange. The next gather() returns the decision. Over a transport without
  /// shared memory, gather() may return PENDING first.
  virtual void give_up(rank missing) = 0;
};

}  // namespace lsched
