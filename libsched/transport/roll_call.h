// Roll calls over messages, by which the surviving members of a world find each other (docs/reference/shrink.md). Each
// roll call is an agreement on the list of the survivors' new boards. The lowest living member proposes the list when
// every living member has answered.
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/transport/agreement.h"

namespace lsched {

/// The state of one member in the roll calls of a board. Used by one thread at a time.
class roll_call {
 public:
  class sender : public agreement::sender {
   public:
    /// Sends this member's answer to a roll call: the number of the roll call and the id of the new board.
    virtual void send_answer(rank member, std::uint64_t roll, std::uint32_t fresh) = 0;
    /// Returns whether a lost member may live behind a cut of the network.
    virtual bool is_silent(rank member) const = 0;
  };

  roll_call() = default;
  roll_call(rank self, rank members, sender& to) : self_(self), to_(&to), on_(self, members, false, to) {
    answers_.resize(static_cast<std::size_t>(members));
  }

  /// Sends this member's answer to the other members. `fresh`: id of this member's new board. If members have given up
  /// or answered later roll calls, this member takes part in the newest roll call.
  void answer(std::uint32_t fresh);
  /// Gives up the roll call. Returns false if this member has accepted a list that may be settled.
  bool give_up();

  // advance() must be called after these functions, when all losses that the transport knows were reported.
  void take_answer(rank from, std::uint64_t roll, std::uint32_t fresh);
  void take(rank from, const agreement::message& what) { on_.take(from, what); }
  void lose(rank member);

  /// Takes the steps that have become possible.
  void advance();

  /// The agreement of the current or last roll call.
  const agreement& on() const { return on_; }
  /// Returns a living member for which the roll call waits, or k_no_rank.
  rank find_missing() const;
  /// Returns the id of each survivor's board plus 1, by member, and 0 for members that are lost.
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
