// A board in the segment: each member has words and records in its own region (of the home board: in its page), and
// reads those of the others.
//
//     commit n:   record n in place n % 2     posted = n     bells     …     all have posted n: the first to see it
//                                                                            writes `settled`, others find it there
//
// Whoever posts last rings the others: they can do nothing before.
//
// A record's place is used again when every member has passed the commit before the last one. Where each exchange ends
// with the records of all, that is so without a look: whoever posts n has passed n - 1.
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

/// An offer of a board (board::offer), in the page of its rank. The word: the key and, in its two lowest bits, how far
/// the offer has come; 0: the place is free. The rank writes to a free place and takes back what is offered; the first
/// member accepts what is offered, all or none, and tells where the list of all boards is.
struct shm_offer {
  enum stage : std::uint64_t { offered = 1, accepted, answered };
  static constexpr std::size_t k_places = 8;  ///< of a rank

  std::atomic<std::uint64_t> word;
  std::atomic<std::uint64_t> board;  ///< the rank's own
  std::atomic<std::uint64_t> first;  ///< that of the first member, whose list has all

  static constexpr std::uint64_t word_of(std::uint64_t key, stage how_far) { return key << 2 | how_far; }
};

/// A word that says how an exchange or a call of the roll was settled: its number, and in the lower half how.
constexpr std::uint64_t settlement(std::uint64_t number, std::uint64_t how) { return number << 32 | how; }
constexpr bool is_about(std::uint64_t word, std::uint64_t number) { return word >> 32 == (number & 0xffffffff); }
constexpr std::uint64_t how_of(std::uint64_t word) { return word & 0xffffffff; }

/// What a member shows. All zeroes: it has posted nothing. A byte for each member follows, unless it is in a page:
/// whether that one will not come back to this memory. Then the boards of all, where the first member has found them.
struct shm_board_words {
  alignas(64) std::atomic<std::uint64_t> posted;  ///< the commit of its newest record
  std::atomic<std::uint64_t> passed;              ///< the last commit whose end it has seen
  std::atomic<std::uint32_t> has_closed;

  /// By parity of the commit, in the words of the world's first rank: its number, and in the lower half 0 where it
  /// stands, else the missing rank plus 2.
  alignas(64) std::atomic<std::uint64_t> settled[2];

  /// How far the member has come with calls of the roll (board::regroup): the last one that it has answered, and the
  /// last one whose end it has seen; and by parity of the call where its board for the survivors is.
  alignas(64) std::atomic<std::uint64_t> answered;
  std::atomic<std::uint64_t> dismissed;
  std::atomic<std::uint64_t> fresh[2];
  /// In the words of the world's first rank, by parity: the number of a call that is settled, and in the lower half by
  /// whose list, its rank plus 2, or, with k_given_up, for whom it was given up.
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
  /// Of the rank `self` of the segment. The words are the caller's, who is told by `at_end` that they are not used any
  /// more.
  shm_board(shm_segment& segment, ringer& owing, rank self, shm_board_words& own,
            std::function<void(shm_board&)> at_end);
  ~shm_board() override;

  member_address address() const override;
  std::uint64_t number() const override;
  status join(std::span<const rank> members, std::span<const member_address> all) override;
  void join_home();  ///< all ranks, in their pages
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
  /// By rank; empty until it has joined.
  std::span<shm_board_words* const> of_ranks() const { return of_ranks_; }
  /// Whose record or offer is waited for, by their places in the segment.
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

  // shm_board_roll.cc
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
  const rank self_;  ///< in the segment
  shm_board_words& own_;
  const std::function<void(shm_board&)> at_end_;
  std::uint64_t key_ = 0;          ///< of the offer; 0: none
  shm_offer* offer_ = nullptr;     ///< in this rank's page, once there is a free place
  std::vector<rank> offered_to_;   ///< the members, as in members_
  std::size_t missing_offer_ = 0;  ///< of them, whose offer is waited for
  shm_board* former_ = nullptr;    ///< whose survivors meet here, until they have
  std::uint64_t roll_ = 0;         ///< the number of that call of the roll
  rank unanswered_ = k_no_rank;    ///< in `former_`: whose answer was missing
  std::vector<rank> members_;      ///< by rank of the world, places in the segment; empty until it has joined
  std::vector<shm_board_words*> of_ranks_;
  std::uint64_t number_ = 0;      ///< of the exchange that is under way, or of the last one
  std::uint64_t passed_ = 0;      ///< of the last one that has ended here
  std::uint64_t all_passed_ = 0;  ///< that every member is known to have passed
};

}  // namespace lsched
