// Where the members of a world show each other the records of their commits, one commit after the other, and settle
// whether a commit stands.
//
// Of each commit every member posts a record and gathers those of all. Whether it stands is settled once for all
// members: it stands as soon as any member has gathered all records; it is given up by the first member that says so
// before that. So no member commits what another has given up, and after a commit that was given up the next one may
// stand. (docs/inside/worlds.md)
//
// The engine's owner calls it; the endpoint's poll() carries exchanges on. Ranks here are those of the world.
//
// Every implementation passes tests/conformance/endpoint_exam.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

/// Where the others reach a rank's end of something that the members of a world make together. What the fields mean the
/// transport knows.
struct member_address {
  std::uint64_t near = 0;  ///< in memory that the ranks share
  std::uint64_t far = 0;   ///< by messages
  friend bool operator==(const member_address&, const member_address&) = default;
};

class board {
 public:
  static constexpr std::size_t record_bytes = 640;

  /// Leaves the world: members that wait for a record of this rank hear of it.
  virtual ~board() = default;

  virtual member_address address() const = 0;

  /// Once it has joined: the same on all members' boards, and on no other board that is open at any of them.
  virtual std::uint64_t number() const = 0;

  /// Connects it to the boards of the world's members, by rank there: where each is among the ranks of the transport,
  /// and the address of its board. Once, before anything below. ARGUMENT: there is none, or the members are more than
  /// the board was opened for.
  virtual status join(std::span<const rank> members, std::span<const member_address> all) = 0;

  /// Instead of join, where the members alone know of each other: each of them offers its board under the same key,
  /// and the first one brings them together. One offer of a key at a time and rank. The key is not 0, and below
  /// k_end_of_keys.
  virtual void offer(std::uint64_t key, std::span<const rank> members) = 0;
  static constexpr std::uint64_t k_end_of_keys = std::uint64_t{1} << 62;

  /// PENDING until all have offered theirs; *missing is then a member that has not, where known. OK: it has joined.
  /// PEER: *missing has closed; this rank takes its offer back, unless meanwhile the offer was accepted.
  virtual status meet(rank* missing) = 0;

  /// Takes the offer back, unless it has been accepted: then meet() answers OK, perhaps only later. Over a medium
  /// without shared memory the offer is closed, and should it have been accepted, the others hear that this rank has
  /// left.
  virtual bool withdraw() = 0;

  /// Instead of offer, after members of `former` were lost or have left it: all others meet, each with a board that was
  /// opened at the same endpoint for as many members as `former` has. They are in homes() then. meet() also answers
  /// TIMEOUT, once a member has withdrawn for *missing, a rank of `former`. UNSUPPORTED: the medium does not outlive a
  /// lost rank. (docs/reference/shrink.md)
  virtual status regroup(board& former) {
    static_cast<void>(former);
    return status::unsupported;
  }
  /// Of a board that has regrouped, by rank of the world: where each member is among the ranks of the transport.
  virtual std::span<const rank> homes() const { return {}; }

  /// Begins the next exchange with this rank's record, of record_bytes; zeroes fill a shorter one. The last one must
  /// have ended. PENDING: there is no room for the record yet, since *missing is two commits behind.
  virtual status post(std::span<const std::byte> record, rank* missing) = 0;

  /// PENDING until the exchange has ended; *missing is then a member that has not posted, where known. OK: the commit
  /// stands, and `all` holds the records by rank, record_bytes each. TIMEOUT: it was given up because *missing had not
  /// posted. PEER: *missing has left the world and will not post, so that the commit stands nowhere.
  virtual status gather(std::span<std::byte> all, rank* missing) = 0;

  /// Says in an exchange that this rank does not wait any longer, for `missing`. The next gather() answers how that was
  /// settled, over a medium without shared memory perhaps only later.
  virtual void give_up(rank missing) = 0;
};

}  // namespace lsched
