// In an agreement, the members of a board agree on a value by messages. Ranks may be lost between any two messages. The
// agreements of a board are numbered. A member takes part in one agreement after the other.
//
//     proposer   propose n, value ──▶ every member
//     member     accept n ──────────▶ proposer; this member now waits for the outcome
//     member     refuse n ──────────▶ every member, instead of `accept n`, also without a proposal
//     proposer   settled n ─────────▶ every member, if every living member has accepted
//     proposer   refuse n ──────────▶ every member, if a living member has refused
//     member     accept n ──────────▶ new proposer; if n has ended there, the new proposer repeats the outcome
//
// The proposer is the lowest living member. If the proposer is lost, the next proposer proposes the value that this new
// proposer has accepted. The value of a settled agreement never changes, because every living member has accepted this
// value.
//
// An agreement is never settled for one living member and refused for another. For a member that has not accepted, the
// first refusal from any member ends the agreement. For a member that has accepted and is not the proposer, only
// a refusal from the proposer ends the agreement. For the proposer, a refusal from any living member ends the
// agreement.
//
// tests/models explores this class with a loss between any two messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

/// The reason why an agreement has failed. `why` is TIMEOUT or PEER. `missing` is the member that the error must name.
struct refusal {
  status why = status::timeout;
  rank missing = k_no_rank;
  friend bool operator==(const refusal&, const refusal&) = default;
};

/// Only one thread at a time may use an object of this class.
class agreement {
 public:
  enum class kind : std::uint32_t { propose, accept, refuse, settled };
  struct message {
    enum kind kind;
    std::uint64_t number;
    refusal about{};
    std::span<const std::byte> value{};
  };

  /// Sends messages to other members. `send` is called only for living members.
  class sender {
   public:
    virtual ~sender() = default;
    virtual void send(rank member, const message& what) = 0;
  };

  /// The state of this member in the current agreement.
  enum class phase : std::uint8_t { idle, open, accepted, settled, refused };

  agreement() = default;
  /// If `is_lossless` is true, no member is ever lost, and a proposal is settled at once. `to` must outlive this
  /// object.
  agreement(rank self, rank members, bool is_lossless, sender& to);

  /// Starts to take part in the agreement `number`. Each number must be higher than all previous numbers. The agreement
  /// may already be refused.
  void begin(std::uint64_t number);
  /// Proposes a value. Only the lowest living member may call this function, and only in phase `open`.
  void propose(std::span<const std::byte> value);
  /// Refuses the agreement for this reason. Returns false and changes nothing if this member has accepted a value that
  /// may be settled.
  bool refuse(const refusal& about);

  /// Refuses an agreement in which this member does not take part yet.
  void refuse_later(std::uint64_t number, const refusal& about);

  void take(rank from, const message& what);
  void lose(rank member);
  /// Records a loss, but takes no further step. The caller must call lose() later.
  void note_lost(rank member) { is_lost_[static_cast<std::size_t>(member)] = true; }

  std::uint64_t number() const { return number_; }
  enum phase phase() const { return phase_; }
  bool is_over() const { return phase_ == phase::settled || phase_ == phase::refused; }
  /// Returns the accepted or settled value. The result is valid until the next agreement begins.
  std::span<const std::byte> value() const { return value_; }
  /// Frees the settled value. No other member needs it from this member, because all members have the value.
  void drop_value() { value_ = {}; }
  /// Returns the reason for the refusal.
  const refusal& why() const { return why_; }
  /// Returns the highest number of a later agreement that a member has refused, or 0.
  std::uint64_t highest_refused() const { return refused_.empty() ? 0 : refused_.rbegin()->first; }

  bool is_lost(rank member) const { return is_lost_[static_cast<std::size_t>(member)]; }
  /// Returns the lowest living member.
  rank proposer() const;
  /// Returns the lowest living member that has not accepted the proposal of this member, or k_no_rank.
  rank find_undecided() const;

 private:
  friend struct agreement_state;  // tests/models

  void send_all(const message& what) const;
  void take_proposal(rank from, const message& what);
  void take_refusal(rank from, const message& what);
  void take_acceptance(rank from, std::uint64_t number);
  void lose_below(rank member);
  void advance();
  void end(enum phase how, const refusal& why = {});

  rank self_ = k_no_rank;
  bool is_lossless_ = false;
  sender* to_ = nullptr;
  std::vector<bool> is_lost_;

  std::uint64_t number_ = 0;
  enum phase phase_ = phase::idle;
  std::vector<std::byte> value_;  ///< accepted or settled
  refusal why_;
  rank asked_ = k_no_rank;  ///< the proposer to which `accept` was sent last
  bool has_proposed_ = false;
  bool is_own_ = false;             ///< the proposed value is new, so no member can have settled this value before
  std::vector<bool> has_accepted_;  ///< by member: true if the member has accepted the proposal of this member
  std::vector<std::optional<refusal>> refusals_;  ///< by member: the refusal of the current agreement
  std::uint64_t last_settled_ = 0;
  std::map<std::uint64_t, refusal> refused_;  ///< later agreements that a member has refused, by number
};

}  // namespace lsched
