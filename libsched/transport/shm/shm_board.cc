#include "libsched/transport/shm/shm_board.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "libsched/transport/shm/shm_segment.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_stands = 0;

/// How a commit was settled.
constexpr std::uint64_t settlement(std::uint64_t number, std::uint64_t how) { return number << 32 | how; }
constexpr bool is_about(std::uint64_t word, std::uint64_t number) { return word >> 32 == (number & 0xffffffff); }
constexpr std::uint64_t given_up_for(rank missing) { return static_cast<std::uint64_t>(missing + 2); }
constexpr std::uint64_t how_of(std::uint64_t word) { return word & 0xffffffff; }

}  // namespace

shm_board::shm_board(shm_segment& segment, ringer& owing, rank self, shm_board_words& own,
                     std::function<void(shm_board&)> at_end)
    : segment_(segment), ringer_(owing), self_(self), own_(own), at_end_(std::move(at_end)) {}

shm_board::~shm_board() {
  own_.has_closed.store(1);
  ring_members();
  at_end_(*this);
}

member_address shm_board::address() const {
  return {.near = segment_.offset_of(reinterpret_cast<const std::byte*>(&own_))};
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

void shm_board::ring_members() {
  for (const rank each : members_)
    if (each != self_) ringer_.owe(static_cast<std::size_t>(each), segment_.page(each).bell);
}

bool shm_board::has_closed(std::size_t member) const {
  return of_ranks_[member]->has_closed.load() != 0 ||
         segment_.page(members_[member]).state_of_rank.load() == shm_page::closed;
}

// Whoever has closed does not look any more.
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
  ring_members();
  return status::ok;
}

bool shm_board::awaits(rank member) const {
  return !of_ranks_.empty() && passed_ < number_ &&
         of_ranks_[static_cast<std::size_t>(member)]->posted.load() < number_;
}

status shm_board::gather(std::span<std::byte> all, rank* missing) {
  const std::uint64_t before = settled().load();
  bool is_settled = is_about(before, number_);
  for (std::size_t r = 0; r < of_ranks_.size() && !is_settled; ++r) {
    const bool is_gone = has_closed(r);  // asked first: it may post, and then close
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
  return how;
}

void shm_board::give_up(rank missing) {
  std::uint64_t before = settled().load();
  if (is_about(before, number_)) return;
  if (settled().compare_exchange_strong(before, settlement(number_, given_up_for(missing)))) ring_members();
}

}  // namespace lsched
