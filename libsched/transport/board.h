// The members of a world use boards to exchange the records of their commits (commit/commit.h), and to decide whether
// each commit succeeds.
//
// For each commit, every member posts a record and gathers the records of all members. All members get the same
// decision. A commit succeeds as soon as any member has gathered all records. The commit fails if a member gives up
// before that. After a failed commit, the next commit may succeed (docs/inside/worlds.md).
//
// Thread safety: only the thread that owns the engine may call a board. The endpoint's poll() advances exchanges. All
// ranks are ranks of the world, except in the parameters `members` and in homes(). These are home ranks (membership.h).
//
// Every implementation must pass tests/conformance/endpoint_exam.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

/// The address of one rank's part of a shared object, such as an instance or a board. Only the transport interprets the
/// fields.
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

  /// Returns an id of the world, which is equal on the boards of all members. No other open board of any member has
  /// this id. The board must have joined.
  virtual std::uint64_t number() const = 0;

  /// Connects the board to the boards of the world's members. For each rank of the world, `members` contains the home
  /// rank (membership.h), and `all` contains the address of the board. Must be called once, before post(), gather() and
  /// give_up(). Returns ARGUMENT if there is no board at an address, or if this board was opened for fewer members.
  virtual status join(std::span<const rank> members, std::span<const member_address> all) = 0;

  /// Replaces join() if no member knows the addresses of the other boards. Each member offers its board under the same
  /// key. The first rank in `members` connects the boards. A rank may have at most one offer per key at a time. `key`
  /// must be positive and below k_end_of_keys.
  virtual void offer(std::uint64_t key, std::span<const rank> members) = 0;
  static constexpr std::uint64_t k_end_of_keys = std::uint64_t{1} << 62;

  /// Returns PENDING while offers are missing, and sets *missing to a member without an offer, if known. Returns OK if
  /// the board has joined. Returns PEER if *missing has closed its endpoint. The caller must then withdraw() the offer.
  virtual status meet(rank* missing) = 0;

  /// Withdraws the offer. Returns false if the offer was already accepted. In this case, meet() returns OK, but
  /// possibly only in a later call. A transport without shared memory may withdraw even an accepted offer. The other
  /// members then treat this rank as a member that has left the new world.
  virtual bool withdraw() = 0;

  /// Replaces offer() after members of `former` were lost or have left (docs/reference/shrink.md). Each remaining
  /// member must call regroup() on a new board. The endpoint of `former` must have opened the new board for as many
  /// members as `former` has. meet() then waits for all remaining members, and homes() returns their home ranks. meet()
  /// returns TIMEOUT if a member has withdrawn because rank `*missing` of `former` did not call regroup(). regroup()
  /// returns UNSUPPORTED if the transport cannot lose ranks.
  virtual status regroup(board& former) {
    static_cast<void>(former);
    return status::unsupported;
  }
  /// Returns the home rank of each member, indexed by rank of the new world. meet() must have returned OK before.
  virtual std::span<const rank> homes() const { return {}; }

  /// Starts the next exchange, and posts this rank's record. The record has at most record_bytes bytes, and is padded
  /// with zeros. The previous exchange must have ended. Returns PENDING if *missing is two commits behind, so that no
  /// memory for the record is free yet.
  virtual status post(std::span<const std::byte> record, rank* missing) = 0;

  /// Returns PENDING until the exchange has ended, and sets *missing to a member without a record, if known. Returns OK
  /// if the commit succeeds. `all` then contains the records in the order of the ranks, with record_bytes bytes each.
  /// Returns TIMEOUT if the commit was given up because *missing had not posted. Returns PEER if *missing has left the
  /// world without posting, so the commit fails on all ranks.
  virtual status gather(std::span<std::byte> all, rank* missing) = 0;

  /// Stops waiting for the record of `missing` in the current exchange. The next gather() returns whether the commit
  /// succeeds. Over a transport without shared memory, gather() may first return PENDING.
  virtual void give_up(rank missing) = 0;
};

}  // namespace lsched
