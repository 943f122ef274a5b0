#include "tests/support/inproc_board.h"

#include <algorithm>
#include <utility>

namespace lsched {

using inproc::board_page;

status inproc_board::join(std::span<const rank> members, std::span<const member_address> all) {
  if (all.size() != members.size()) return status::argument;
  std::vector<board_page*> found;
  for (std::size_t m = 0; m < all.size(); ++m) {
    if (all[m].near == 0 || all[m].near > world_.boards.size()) return status::argument;
    found.push_back(&world_.boards[all[m].near - 1]);
    if (found.back()->owner != members[m] || found.back()->most < members.size()) return status::argument;
  }
  members_.assign(members.begin(), members.end());
  number_of_first_ = all.front().near;
  pages_ = std::move(found);
  return status::ok;
}

void inproc_board::offer(std::uint64_t key, std::span<const rank> members) {
  key_ = key;
  offered_to_.assign(members.begin(), members.end());
  world_.offers[{key_, own_.owner}] = index_;
}

status inproc_board::meet(rank* missing) {
  std::vector<member_address> all;
  for (std::size_t m = 0; m < offered_to_.size() && own_.met.empty(); ++m) {
    const auto found = world_.offers.find({key_, offered_to_[m]});
    if (found == world_.offers.end()) return *missing = static_cast<rank>(m), status::pending;
    all.push_back({.near = found->second + 1});
  }
  for (const member_address& one : all) {
    board_page& page = world_.boards[one.near - 1];
    page.met = all;
    world_.offers.erase({key_, page.owner});
  }
  key_ = 0;
  return join(offered_to_, own_.met);
}

bool inproc_board::withdraw() {
  if (key_ == 0) return true;
  if (!own_.met.empty()) return false;
  world_.offers.erase({std::exchange(key_, 0), own_.owner});
  return true;
}

// Joins the world of all ranks. Other members may open their boards later.
void inproc_board::join_home() {
  for (std::size_t r = 0; r < world_.places.size(); ++r) {
    members_.push_back(static_cast<rank>(r));
    pages_.push_back(&world_.boards[r]);
  }
}

bool inproc_board::has_left(std::size_t member) const {
  return pages_[member]->is_closed || world_.has_left(members_[member]);
}

status inproc_board::post(std::span<const std::byte> record, rank* missing) {
  const std::uint64_t next = number_ + 1;
  for (std::size_t m = 0; m < pages_.size(); ++m)
    if (pages_[m]->passed + 2 < next && !has_left(m)) return *missing = static_cast<rank>(m), status::pending;
  number_ = next;
  auto& place = own_.records[next % 2];
  place.fill(std::byte{0});
  std::copy_n(record.begin(), std::min(record.size(), place.size()), place.begin());
  own_.posted = next;
  return status::ok;
}

status inproc_board::gather(std::span<std::byte> all, rank* missing) {
  for (std::size_t m = 0; m < pages_.size() && settled().number != number_; ++m) {
    if (pages_[m]->posted >= number_) continue;
    *missing = static_cast<rank>(m);
    return has_left(m) ? end(status::peer) : status::pending;
  }
  if (settled().number != number_) settled() = {.number = number_};
  if (settled().missing != k_no_rank) {
    *missing = settled().missing;
    return end(status::timeout);
  }
  for (std::size_t m = 0; m < pages_.size(); ++m)
    std::ranges::copy(pages_[m]->records[number_ % 2],
                      all.begin() + static_cast<std::ptrdiff_t>(m * board::record_bytes));
  return end(status::ok);
}

status inproc_board::end(status how) {
  own_.passed = number_;
  return how;
}

void inproc_board::give_up(rank missing) {
  if (settled().number != number_) settled() = {.number = number_, .missing = missing};
}

}  // namespace lsched
