// A board in the segment that the ranks of a node share (shm_segment.h). Each member has words and records in its own
// region; for the board of the world of all ranks, in its page. Each member reads the words and records of the other
// members.
//
//     commit n:   record n in place n % 2     posted = n     bells     …     all have posted n: the first to see it
//                                                                            writes `settled`, others find it there
//
// The last member to post rings the others, because no member can proceed before.
//
// The place of record n is reused for record n + 2 when every member has passed commit n. If each exchange ends with
// the records of all members, this needs no check, because a member that posts n + 1 has passed n.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "libsched/transport/board.h"
#include "libsched/transport/doorbell.h"

namespace lsched {

class shm_segment;

/// An offer of a board (board::offer), in the page of its rank. `word` holds the key and, in its two lowest bits, the
/// stage of the offer; 0: the place is free. The rank writes to a free place and may withdraw an offer at stage
/// `offered`. The first member of the new world accepts the offers of all members, or none. Then it publishes in each
/// offer where the list of all boards lies.
struct shm_offer {
  enum stage : std::uint64_t { offered = 1, accepted, answered };
  static constexpr std::size_t k_places = 8;  ///< places per rank

  std::atomic<std::uint64_t> word;
  std::atomic<std::uint64_t> board;  ///< the rank's own board
  std::atomic<std::uint64_t> first;  ///< board of the first member, which holds the list of all boards

  static constexpr std::uint64_t word_of(std::uint64_t key, stage how_far) { return key << 2 | how_far; }
};

/// Packs the number of an exchange or roll call (board::regroup) into the upper half of a word, and the outcome into
/// the lower half.
constexpr std::uint64_t settlement(std::uint64_t number, std::uint64_t how) { return number << 32 | how; }
constexpr bool is_about(std::uint64_t word, std::uint64_t number) { return word >> 32 == (number & 0xffffffff); }
constexpr std::uint64_t how_of(std::uint64_t word) { return word & 0xffffffff; }

/// The words that a member publishes. All zeros: the member has posted nothing. Unless the words are in a page, two
/// arrays follow. left() has a byte for each member, which shows that this member will no longer access the memory.
/// list() is the list of all boards, once the first member has filled it.
struct shm_board_words {
  alignas(64) std::atomic<std::uint64_t> posted;  ///< commit of the newest record
  std::atomic<std::uint64_t> passed;              ///< last commit whose end the member has seen
  std::atomic<std::uint32_t> has_closed;

  /// Settlements of commits, by parity of the commit. The outcome is 0 if the commit stands, else the missing rank plus
  /// 2. Used only in the words of the world's first rank.
  alignas(64) std::atomic<std::uint64_t> settled[2];

  /// The state of the member in roll calls (board::regroup): the last roll call that the member has answered, the last
  /// roll call whose end the member has seen, and the place of the member's new board, by parity of the roll call.
  alignas(64) std::atomic<std::uint64_t> answered;
  std::atomic<std::uint64_t> dismissed;
  std::atomic<std::uint64_t> fresh[2];
  /// Settlements of roll calls, by parity of the roll call. The outcome is 2 plus the rank whose list of survivors is
  /// used. If k_given_up is set, the outcome is 2 plus the missing rank. Used only in the words of the world's first
  /// rank.
  std::atomic<std::uint64_t> regrouped[2];

  std::byte record[2][board::record_bytes];

  std::atomic<std::uint8_t>& left(std::size_t member) {
    return reinterpret_cast<std::atomic<std::uint8_t>*>(this + 1)[member];
  }
  std::uint64_t* list(std::size_t members) {
    return reinterpret_cast<std::uint64_t*>(reinterpret_cast<std::byte*>(this) + bytes_for(members)) - members;
  }
  static constexpr std::uint64_t bytes_for(std::size_t members) {
    return sizeof(shm_board_words) + (members + 7) / 8 * 8 + members * sizeof(std::uint64_t);
  }
};

class shm_board final : public board {
 public:
  /// Creates the board of rank `self` of the segment. The caller owns the words. `at_end` is called when this board no
  /// longer uses the words.
  shm_board(shm_segment& segment, ringer& owing, rank self, shm_board_words& own,
            std::function<void(shm_board&)> at_end);
  ~shm_board() override;

  member_address address() const override;
  std::uint64_t number() const override;
  status join(std::span<const rank> members, std::span<const member_address> all) override;
  void join_home();  ///< joins all ranks by their pages
  status post(std::span<const std::byte> record, rank* missing) override;
  status gather(std::span<std::byte> all, rank* missing) override;
  void give_up(rank missing) override;
  void offer(std::uint64_t key, std::span<const rank> members) override;
  status meet(rank* missing) override;
  bool withdraw() override;
  status regroup(board& former) override;
  std::span<const rank> homes() const override { return members_; }

  std::span<const rank> members() const { return members_; }
  shm_board_words& words() const { return own_; }
  /// Returns the words of the members, by rank; empty until the board has joined.
  std::span<shm_board_words* const> of_ranks() const { return of_ranks_; }
  /// Returns the ranks in the segment whose records or offers are awaited.
  std::vector<rank> awaited() const;

 private:
  std::atomic<std::uint64_t>& settled() const { return of_ranks_.front()->settled[number_ % 2]; }
  status end(status how);
  bool has_closed(std::size_t member) const;
  rank find_behind(std::uint64_t number) const;
  bool have_all_posted(std::uint64_t number) const;
  void ring(std::span<const rank> those);
  shm_offer* offer_of(rank of, std::uint64_t word) const;
  bool has_offered(rank of) const;
  rank find_missing_offer();
  status state_of_missing(rank member) const;
  status accept_all(rank* missing);
  status take_answer();
  status end_offer(std::span<const std::uint64_t> boards);

  // Defined in shm_board_roll.cc:
  std::atomic<std::uint64_t>& regrouped() const { return former_->of_ranks_.front()->regrouped[roll_ % 2]; }
  std::atomic<std::uint64_t>& answered() const { return former_->own_.answered; }
  bool is_gone(std::size_t member) const;
  rank find_undismissed(std::uint64_t call) const;
  status call_roll(rank* missing);
  rank list_survivors();
  status end_roll(std::uint64_t how, rank* missing);
  status join_listed(std::size_t author);
  bool give_up_roll();
  void leave_roll();
  void dismiss();

  shm_segment& segment_;
  ringer& ringer_;
  const rank self_;  ///< rank in the segment
  shm_board_words& own_;
  const std::function<void(shm_board&)> at_end_;
  std::uint64_t key_ = 0;          ///< key of the offer; 0: no offer
  shm_offer* offer_ = nullptr;     ///< the offer in this rank's page; null until a place is free
  std::vector<rank> offered_to_;   ///< ranks in the segment of the members to meet
  std::size_t missing_offer_ = 0;  ///< index of a member of offered_to_ whose offer is awaited
  shm_board* former_ = nullptr;    ///< board whose survivors meet here; null otherwise
  std::uint64_t roll_ = 0;         ///< number of the roll call
  rank unanswered_ = k_no_rank;    ///< rank in `former_` whose answer is missing
  std::vector<rank> members_;      ///< ranks in the segment, by rank of the world; empty until the board has joined
  std::vector<shm_board_words*> of_ranks_;
  std::uint64_t number_ = 0;      ///< current or last exchange
  std::uint64_t passed_ = 0;      ///< last exchange that has ended here
  std::uint64_t all_passed_ = 0;  ///< last exchange that every member is known to have passed
};

}  // namespace lsched
