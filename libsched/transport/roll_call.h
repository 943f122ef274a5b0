// The surviving members of a world find each other by roll calls (docs/reference/shrink.md). This file implements roll
// calls over messages. In a roll call, each survivor sends the id of its new board. When every living member has sent
// its id, the lowest living member proposes the list of these boards. The survivors then agree on this list
// (agreement.h).
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/transport/agreement.h"

namespace lsched {

/// The state of one member in the roll calls of a board. Only one thread at a time may use an object of this class.
class roll_call {
 public:
  class sender : public agreement::sender {
   public:
    /// Sends this member's answer to a roll call: the number of the roll call and the id of the new board.
    virtual void send_answer(rank member, std::uint64_t roll, std::uint32_t fresh) = 0;
    /// Returns whether a lost member may still be alive on the other side of a network partition.
    virtual bool is_silent(rank member) const = 0;
  };

  roll_call() = default;
  roll_call(rank self, rank members, sender& to) : self_(self), to_(&to), on_(self, members, false, to) {
    answers_.resize(static_cast<std::size_t>(members));
  }

  /// Joins the next roll call, and sends this member's answer to the other members. `fresh` is the id of this member's
  /// new board. This member skips later roll calls that other members have given up. If another member has already
  /// joined an even later roll call, this member joins that roll call.
  void answer(std::uint32_t fresh);
  /// Gives up the roll call. Returns false if this member has accepted a list that may be settled.
  bool give_up();

  // After a call of one of the next three functions, the caller must call advance(). Before that, the caller must call
  // lose() for every loss that the transport has detected.
  void take_answer(rank from, std::uint64_t roll, std::uint32_t fresh);
  void take(rank from, const agreement::message& what) { on_.take(from, what); }
  void lose(rank member);

  /// Takes the steps that have become possible.
  void advance();

  /// Returns the agreement of the current or last roll call.
  const agreement& on() const { return on_; }
  /// Returns a living member for which the roll call waits, or k_no_rank.
  rank find_missing() const;
  /// Returns a number for each member. The number is 0 for a lost member, and the id of the member's new board plus 1
  /// otherwise.
  std::vector<std::uint32_t> list() const;

 private:
  friend struct agreement_state;  // tests/models

  struct reply {
    std::uint64_t roll = 0;
    std::uint32_t fresh = 0;
  };

  rank find_other_side() const;
  rank find_unanswered() const;

  rank self_ = k_no_rank;
  sender* to_ = nullptr;
  agreement on_{};
  std::vector<reply> answers_;  ///< by member
};

}  // namespace lsched
