// A board: the object by which the members of a world exchange the records of their commits (commit/commit.h), and
// decide whether a commit succeeds.
//
// For each commit, every member posts a record and gathers the records of all members. The decision is the same for all
// members: a commit succeeds as soon as any member has gathered all records, and fails if a member gives up before
// that. After a failed commit, the next commit may succeed (docs/inside/worlds.md).
//
// Thread safety: only the engine's owner thread calls a board. The endpoint's poll() advances exchanges. All rank
// numbers are those of the world, except for home ranks (membership.h).
//
// Every implementation must pass tests/conformance/endpoint_exam.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

/// The address of one rank's part of an object that the members of a world create together. Only the transport
/// interprets the fields.
struct member_address {
  std::uint64_t near = 0;  ///< address for ranks that share memory
  std::uint64_t far = 0;   ///< address for ranks that exchange messages
  friend bool operator==(const member_address&, const member_address&) = default;
};

class board {
 public:
  static constexpr std::size_t record_bytes = 640;

  /// Leaves the world. Members that wait for a record of this rank detect the departure.
  virtual ~board() = default;

  virtual member_address address() const = 0;

  /// Returns a number that is equal on the boards of all members, and that no other open board of any member has. Valid
  /// after the board has joined.
  virtual std::uint64_t number() const = 0;

  /// Connects the board to the boards of the world's members. `members` and `all` contain each member's home rank
  /// (membership.h) and board address, indexed by rank of the world. Must be called once, before the functions below.
  /// Returns ARGUMENT if there is no board at an address, or if this board was opened for fewer members.
  virtual status join(std::span<const rank> members, std::span<const member_address> all) = 0;

  /// Used instead of join() if no member knows the addresses of the other boards. Each member offers its board under
  /// the same key, and the first of `members` connects the boards. A rank may have at most one offer per key at a time.
  /// `key` must be positive and below k_end_of_keys.
  virtual void offer(std::uint64_t key, std::span<const rank> members) = 0;
  static constexpr std::uint64_t k_end_of_keys = std::uint64_t{1} << 62;

  /// Returns PENDING while offers are missing, and sets *missing to a member without an offer, if known. Returns OK if
  /// the board has joined. Returns PEER if *missing has closed its endpoint; the caller must then withdraw() the offer.
  virtual status meet(rank* missing) = 0;

  /// Withdraws the offer. Returns false if the offer has been accepted: meet() then returns OK, possibly later. A
  /// transport without shared memory may withdraw an accepted offer. For the other members, this rank has then left the
  /// new world.
  virtual bool withdraw() = 0;

  /// Replaces offer() after members of `former` were lost or have left. meet() then waits for the remaining members,
  /// and homes() returns their home ranks. Each of them must call regroup() on a new board, which the endpoint of
  /// `former` has opened for as many members as `former` has. meet() returns TIMEOUT if a member has withdrawn because
  /// `*missing`, a rank of `former`, did not call regroup(). Returns UNSUPPORTED if the transport cannot lose ranks
  /// (docs/reference/shrink.md).
  virtual status regroup(board& former) {
    static_cast<void>(former);
    return status::unsupported;
  }
  /// Returns the home rank of each member, indexed by rank of the new world. Valid after meet() has returned OK.
  virtual std::span<const rank> homes() const { return {}; }

  /// Starts the next exchange: posts this rank's record of at most record_bytes, padded with zeros. The previous
  /// exchange must have ended. Returns PENDING if no memory for the record is free yet, because *missing is two commits
  /// behind.
  virtual status post(std::span<const std::byte> record, rank* missing) = 0;

  /// Returns PENDING until the exchange has ended, and sets *missing to a member without a record, if known. Returns OK
  /// if the commit succeeds; `all` then contains the records, indexed by rank, record_bytes each. Returns TIMEOUT if
  /// the commit was given up because *missing had not posted. Returns PEER if *missing has left the world without
  /// posting, so the commit fails on all ranks.
  virtual status gather(std::span<std::byte> all, rank* missing) = 0;

  /// Stops waiting for the record of `missing` in the current exchange. The next gather() returns whether the commit
  /// succeeds. Over a transport without shared memory, gather() may first return PENDING.
  virtual void give_up(rank missing) = 0;
};

}  // namespace lsched
