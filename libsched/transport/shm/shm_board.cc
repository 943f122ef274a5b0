#include "libsched/transport/shm/shm_board.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "libsched/transport/shm/shm_segment.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_stands = 0;
constexpr std::uint64_t given_up_for(rank missing) { return static_cast<std::uint64_t>(missing + 2); }

}  // namespace

shm_board::shm_board(shm_segment& segment, ringer& owing, rank self, shm_board_words& own,
                     std::function<void(shm_board&)> at_end)
    : segment_(segment), ringer_(owing), self_(self), own_(own), at_end_(std::move(at_end)) {}

// If the offer was accepted, the other members may read this board at any later time. So this board treats them as its
// members, and the memory of this board is kept until they have left.
shm_board::~shm_board() {
  if (former_ != nullptr) {
    if (!give_up_roll()) leave_roll();
  } else if (!withdraw()) {
    members_ = offered_to_;
    if (segment_.is_lost(offered_to_.front())) offer_->word.store(0);  // the lost first member cannot write here
  }
  own_.has_closed.store(1);
  ring(members_);
  at_end_(*this);
}

member_address shm_board::address() const {
  return {.near = segment_.offset_of(reinterpret_cast<const std::byte*>(&own_))};
}

std::uint64_t shm_board::number() const {
  return segment_.offset_of(reinterpret_cast<const std::byte*>(of_ranks_.front()));
}

status shm_board::join(std::span<const rank> members, std::span<const member_address> all) {
  std::vector<shm_board_words*> found;
  for (std::size_t m = 0; m < members.size() && m < all.size(); ++m) {
    const bool is_sound = all[m].near % alignof(shm_board_words) == 0 &&
                          segment_.holds(members[m], all[m].near, shm_board_words::bytes_for(members.size()));
    if (!is_sound) return status::argument;
    found.push_back(reinterpret_cast<shm_board_words*>(segment_.at(all[m].near)));
  }
  if (found.size() != members.size()) return status::argument;
  members_.assign(members.begin(), members.end());
  of_ranks_ = std::move(found);
  return status::ok;
}

void shm_board::join_home() {
  for (rank each = 0; each < segment_.ranks(); ++each) {
    members_.push_back(each);
    of_ranks_.push_back(&segment_.page(each).home_board);
  }
}

void shm_board::ring(std::span<const rank> those) {
  for (const rank each : those)
    if (each != self_) ringer_.owe(static_cast<std::size_t>(each), segment_.page(each).bell);
}

bool shm_board::has_closed(std::size_t member) const {
  return of_ranks_[member]->has_closed.load() != 0 ||
         segment_.page(members_[member]).state_of_rank.load() == shm_page::closed;
}

// Returns a member that may still read the records of commit `number`, or k_no_rank. Members that have closed the board
// or their endpoint no longer read records.
rank shm_board::find_behind(std::uint64_t number) const {
  for (std::size_t m = 0; m < of_ranks_.size(); ++m)
    if (of_ranks_[m]->passed.load(std::memory_order_acquire) < number && !has_closed(m)) return static_cast<rank>(m);
  return k_no_rank;
}

status shm_board::post(std::span<const std::byte> record, rank* missing) {
  const std::uint64_t next = number_ + 1;
  if (next >= 2 && all_passed_ < next - 2)
    if (const rank behind = find_behind(next - 2); behind != k_no_rank) return *missing = behind, status::pending;
  all_passed_ = next < 2 ? 0 : next - 2;
  number_ = next;
  std::byte* const place = own_.record[next % 2];
  const std::size_t bytes = std::min(record.size(), record_bytes);
  std::fill(std::copy_n(record.begin(), bytes, place), place + record_bytes, std::byte{});
  own_.posted.store(next);
  if (have_all_posted(next)) ring(members_);  // the last member that posts wakes the others
  return status::ok;
}

bool shm_board::have_all_posted(std::uint64_t number) const {
  return std::ranges::all_of(of_ranks_, [=](const shm_board_words* one) { return one->posted.load() >= number; });
}

std::vector<rank> shm_board::awaited() const {
  std::vector<rank> those;
  for (std::size_t m = 0; m < of_ranks_.size() && passed_ < number_; ++m)
    if (of_ranks_[m]->posted.load() < number_) those.push_back(members_[m]);
  if (offer_ != nullptr)
    for (const rank each : offered_to_)
      if (!has_offered(each)) those.push_back(each);
  if (former_ != nullptr && unanswered_ != k_no_rank)
    those.push_back(former_->members_[static_cast<std::size_t>(unanswered_)]);
  return those;
}

status shm_board::gather(std::span<std::byte> all, rank* missing) {
  const std::uint64_t before = settled().load();
  bool is_settled = is_about(before, number_);
  for (std::size_t r = 0; r < of_ranks_.size() && !is_settled; ++r) {
    const bool is_gone = has_closed(r);  // must be read before `posted`, because a member may post and then close
    if (of_ranks_[r]->posted.load() >= number_) continue;
    *missing = static_cast<rank>(r);
    return is_gone ? end(status::peer) : status::pending;
  }
  std::uint64_t how = before;
  if (!is_settled && settled().compare_exchange_strong(how, settlement(number_, k_stands)))
    how = settlement(number_, k_stands);
  const bool stands = how_of(how) == k_stands;
  if (!stands) *missing = static_cast<rank>(how_of(how)) - 2;
  for (std::size_t r = 0; r < of_ranks_.size() && stands; ++r)
    std::memcpy(all.data() + r * record_bytes, of_ranks_[r]->record[number_ % 2], record_bytes);
  if (stands) all_passed_ = number_ - 1;
  return end(stands ? status::ok : status::timeout);
}

status shm_board::end(status how) {
  passed_ = number_;
  own_.passed.store(number_, std::memory_order_release);
  if (how != status::ok) ring(members_);  // wakes members that wait for a free place for a record
  return how;
}

void shm_board::give_up(rank missing) {
  std::uint64_t before = settled().load();
  if (is_about(before, number_)) return;
  if (settled().compare_exchange_strong(before, settlement(number_, given_up_for(missing)))) ring(members_);
}

// --- offers ---------------------------------------------------------------------------------------------------

void shm_board::offer(std::uint64_t key, std::span<const rank> members) {
  key_ = key;
  offered_to_.assign(members.begin(), members.end());
}

shm_offer* shm_board::offer_of(rank of, std::uint64_t word) const {
  for (shm_offer& one : segment_.page(of).offers)
    if (one.word.load(std::memory_order_acquire) == word) return &one;
  return nullptr;
}

status shm_board::meet(rank* missing) {
  if (former_ != nullptr) return call_roll(missing);
  if (offer_ == nullptr) {
    if ((offer_ = offer_of(self_, 0)) == nullptr) return status::pending;
    offer_->board.store(address().near, std::memory_order_relaxed);
    offer_->word.store(shm_offer::word_of(key_, shm_offer::offered), std::memory_order_release);
    ring(offered_to_);
  }
  if (offered_to_.front() == self_) return accept_all(missing);
  if (offer_->word.load(std::memory_order_acquire) == shm_offer::word_of(key_, shm_offer::answered))
    return take_answer();
  *missing = find_missing_offer();
  return state_of_missing(*missing);
}

/// Returns PEER if the member has closed its endpoint, and therefore will not offer its board, else PENDING.
status shm_board::state_of_missing(rank member) const {
  if (member == k_no_rank) return status::pending;
  const shm_page& page = segment_.page(offered_to_[static_cast<std::size_t>(member)]);
  return page.state_of_rank.load() == shm_page::closed ? status::peer : status::pending;
}

bool shm_board::has_offered(rank of) const {
  return offer_of(of, shm_offer::word_of(key_, shm_offer::offered)) != nullptr;
}

// Repeated calls return the same member until its offer has arrived. If more offers are missing later, this member is
// still reported as the cause. The other members may have withdrawn their offers only because the offer of this member
// was missing.
rank shm_board::find_missing_offer() {
  const std::size_t members = offered_to_.size();
  for (std::size_t k = 0; k < members; ++k, missing_offer_ = (missing_offer_ + 1) % members)
    if (!has_offered(offered_to_[missing_offer_])) return static_cast<rank>(missing_offer_);
  return k_no_rank;
}

// Called only by the first member. Accepts the offers of all members, or no offer.
status shm_board::accept_all(rank* missing) {
  if ((*missing = find_missing_offer()) != k_no_rank) return state_of_missing(*missing);
  const std::uint64_t offered = shm_offer::word_of(key_, shm_offer::offered);
  std::vector<shm_offer*> all;
  for (const rank member : offered_to_)
    if (shm_offer* const one = member == self_ ? offer_ : offer_of(member, offered)) all.push_back(one);
  if (all.size() != offered_to_.size()) return status::pending;  // an offer was withdrawn meanwhile
  for (std::size_t m = 0; m < all.size(); ++m) {
    std::uint64_t expected = offered;
    if (all[m]->word.compare_exchange_strong(expected, shm_offer::word_of(key_, shm_offer::accepted))) continue;
    while (m-- > 0) all[m]->word.store(offered);
    return status::pending;
  }
  std::uint64_t* const list = own_.list(all.size());
  for (std::size_t m = 0; m < all.size(); ++m) list[m] = all[m]->board.load();
  for (shm_offer* one : all) {
    one->first.store(address().near, std::memory_order_relaxed);
    one->word.store(shm_offer::word_of(key_, shm_offer::answered), std::memory_order_release);
  }
  ring(offered_to_);
  return end_offer({list, all.size()});
}

status shm_board::take_answer() {
  const std::size_t members = offered_to_.size();
  const std::uint64_t first = offer_->first.load(std::memory_order_relaxed);
  const bool is_sound = first % alignof(shm_board_words) == 0 &&
                        segment_.holds(offered_to_.front(), first, shm_board_words::bytes_for(members));
  if (!is_sound) return status::argument;
  return end_offer({reinterpret_cast<shm_board_words*>(segment_.at(first))->list(members), members});
}

status shm_board::end_offer(std::span<const std::uint64_t> boards) {
  offer_->word.store(0, std::memory_order_release);
  offer_ = nullptr;
  std::vector<member_address> all;
  for (const std::uint64_t one : boards) all.push_back({.near = one});
  return join(offered_to_, all);
}

bool shm_board::withdraw() {
  if (former_ != nullptr) return give_up_roll();
  if (offer_ == nullptr) return true;
  std::uint64_t expected = shm_offer::word_of(key_, shm_offer::offered);
  if (!offer_->word.compare_exchange_strong(expected, 0)) return false;
  offer_ = nullptr;
  return true;
}

}  // namespace lsched
