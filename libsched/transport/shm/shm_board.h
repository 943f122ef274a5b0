// An shm_board is a board (transport/board.h) in the segment that the ranks of a node share (shm_segment.h). Each
// member has words and records in its own region. The other members read these words and records. For the world of all
// ranks, the words and records are in the member's page.
//
// In commit n, each member writes record n to place n % 2 and then sets `posted` to n. The last member that posts rings
// the bells of the others, because no member can proceed before that. The member that first finds all records writes
// the outcome to `settled`. The other members read the outcome there.
//
// A member has passed commit n when it no longer reads the records of commit n. When all members have passed commit n,
// the place of record n is reused for record n + 2. A member that posts record n + 1 has passed commit n. So if all
// members have posted record n + 1, all have passed commit n, and no check is needed. If commit n + 1 has ended
// without the records of all members, a member must check `passed` of all members before it writes record n + 2.
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

/// An offer of a board (board::offer), in the page of the offering rank. The two lowest bits of `word` contain the
/// stage of the offer, and the other bits contain the key. If `word` is 0, the place is free. The rank writes its offer
/// to a free place, and may withdraw the offer at stage `offered`. The first member of the new world accepts the offers
/// of all members, or no offer. After that, the first member writes to each offer the location of its own board, which
/// has the list of all boards.
struct shm_offer {
  enum stage : std::uint64_t { offered = 1, accepted, answered };
  static constexpr std::size_t k_places = 8;  ///< number of offers per rank

  std::atomic<std::uint64_t> word;
  std::atomic<std::uint64_t> board;  ///< location of the rank's own board
  std::atomic<std::uint64_t> first;  ///< location of the first member's board, which has the list of all boards

  static constexpr std::uint64_t word_of(std::uint64_t key, stage how_far) { return key << 2 | how_far; }
};

/// Packs the number of an exchange, or of a roll call (board::regroup), into the upper half of a word, and the outcome
/// into the lower half.
constexpr std::uint64_t settlement(std::uint64_t number, std::uint64_t how) { return number << 32 | how; }
constexpr bool is_about(std::uint64_t word, std::uint64_t number) { return word >> 32 == (number & 0xffffffff); }
constexpr std::uint64_t how_of(std::uint64_t word) { return word & 0xffffffff; }

/// The words that a member publishes. Memory of zeros means that the member has posted nothing. Two arrays follow the
/// words, unless the words are in a page (shm_page). left() returns an element of the first array, which has a byte for
/// each member. A member sets its byte when it no longer accesses this memory. list() returns the second array, which
/// is a list of the locations of all boards. The list is valid only if this member has filled it.
struct shm_board_words {
  alignas(64) std::atomic<std::uint64_t> posted;  ///< number of the commit to which the newest record belongs
  std::atomic<std::uint64_t> passed;              ///< last commit whose outcome the member has read
  std::atomic<std::uint32_t> has_closed;

  /// Outcomes of commits, packed by settlement() and indexed by the parity of the commit's number. The outcome is 0 if
  /// the commit succeeds, else the missing rank plus 2. Used only in the words of the world's first rank.
  alignas(64) std::atomic<std::uint64_t> settled[2];

  /// The state of the member in roll calls (board::regroup). `answered`: the last roll call that the member has
  /// answered. `dismissed`: the last roll call whose outcome the member has read. `fresh`: location of the member's new
  /// board, indexed by the parity of the roll call's number.
  alignas(64) std::atomic<std::uint64_t> answered;
  std::atomic<std::uint64_t> dismissed;
  std::atomic<std::uint64_t> fresh[2];
  /// Outcomes of roll calls, packed by settlement() and indexed by the parity of the roll call's number. If the bit
  /// k_given_up is set, the rest of the outcome is 2 plus the missing rank. Otherwise the outcome is 2 plus the rank
  /// whose list of survivors is used. Used only in the words of the world's first rank.
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
  /// Creates the board of rank `self` of the segment. `own` contains the words of this board, and belongs to the
  /// caller. The destructor calls `at_end` when this board no longer uses the words.
  shm_board(shm_segment& segment, ringer& owing, rank self, shm_board_words& own,
            std::function<void(shm_board&)> at_end);
  ~shm_board() override;

  member_address address() const override;
  std::uint64_t number() const override;
  status join(std::span<const rank> members, std::span<const member_address> all) override;
  void join_home();  ///< joins the world of all ranks, whose words are in the pages
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
  /// Returns the words of the members, indexed by rank. Empty until the board has joined.
  std::span<shm_board_words* const> of_ranks() const { return of_ranks_; }
  /// Returns the ranks of the segment whose record, offer or answer to a roll call this board awaits.
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
  const rank self_;  ///< rank of the segment, not of the world
  shm_board_words& own_;
  const std::function<void(shm_board&)> at_end_;
  std::uint64_t key_ = 0;          ///< key of the offer; 0: no offer
  shm_offer* offer_ = nullptr;     ///< this rank's offer; null until a place for it is free
  std::vector<rank> offered_to_;   ///< members of the new world, as ranks of the segment
  std::size_t missing_offer_ = 0;  ///< index in offered_to_ of a member whose offer is missing
  shm_board* former_ = nullptr;    ///< after regroup(): the board whose survivors meet; else null
  std::uint64_t roll_ = 0;         ///< number of the roll call
  rank unanswered_ = k_no_rank;    ///< rank in `former_` whose answer is missing
  std::vector<rank> members_;      ///< members as ranks of the segment, by rank of the world; empty before join
  std::vector<shm_board_words*> of_ranks_;
  std::uint64_t number_ = 0;      ///< number of the current or last exchange
  std::uint64_t passed_ = 0;      ///< last exchange that has ended on this rank
  std::uint64_t all_passed_ = 0;  ///< last exchange that every member is known to have passed
};

}  // namespace lsched
