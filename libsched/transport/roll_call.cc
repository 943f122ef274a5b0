#include "libsched/transport/roll_call.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace lsched {

void roll_call::answer(std::uint32_t fresh) {
  std::uint64_t roll = std::max(on_.number(), on_.highest_refused()) + 1;
  for (const reply& one : answers_) roll = std::max(roll, one.roll);
  answers_[static_cast<std::size_t>(self_)] = {roll, fresh};
  on_.begin(roll);
  for (rank m = 0; m < static_cast<rank>(answers_.size()); ++m)
    if (m != self_ && !on_.is_lost(m)) to_->send_answer(m, roll, fresh);
  advance();
}

bool roll_call::give_up() {
  if (on_.is_over()) return on_.phase() == agreement::phase::refused;
  return on_.refuse({status::timeout, find_missing()});
}

void roll_call::take_answer(rank from, std::uint64_t roll, std::uint32_t fresh) {
  answers_[static_cast<std::size_t>(from)] = {roll, fresh};
}

// If this member has proposed a list and a further loss leaves too few members on this side of a network partition,
// this member withdraws its proposal by refusing it.
void roll_call::lose(rank member) {
  on_.note_lost(member);
  const bool has_proposed = on_.phase() == agreement::phase::accepted && on_.proposer() == self_;
  if (const rank other = find_other_side(); has_proposed && other != k_no_rank) (void)on_.refuse({status::peer, other});
  on_.lose(member);
}

/// Returns the lowest living member that has not answered the roll call, or k_no_rank.
rank roll_call::find_unanswered() const {
  for (std::size_t m = 0; m < answers_.size(); ++m)
    if (answers_[m].roll < on_.number() && !on_.is_lost(static_cast<rank>(m))) return static_cast<rank>(m);
  return k_no_rank;
}

rank roll_call::find_missing() const {
  const rank silent = find_unanswered();
  if (silent != k_no_rank) return silent;
  return on_.proposer() == self_ ? on_.find_undecided() : on_.proposer();
}

// This member sends its answer again in two cases: if the roll call was given up because the answer had not arrived,
// and if another member has sent its answer to a later roll call.
void roll_call::advance() {
  const bool is_open = on_.phase() == agreement::phase::open;
  const bool is_mine = on_.phase() == agreement::phase::refused && on_.why() == refusal{status::timeout, self_};
  const auto is_later = [this](const reply& one) { return one.roll > on_.number(); };
  if (is_mine || (is_open && std::ranges::any_of(answers_, is_later)))
    return answer(answers_[static_cast<std::size_t>(self_)].fresh);
  if (!is_open || on_.proposer() != self_ || find_unanswered() != k_no_rank) return;
  if (const rank other = find_other_side(); other != k_no_rank) return (void)on_.refuse({status::peer, other});
  std::vector<std::uint32_t> boards(answers_.size());
  for (std::size_t m = 0; m < boards.size(); ++m)
    boards[m] = on_.is_lost(static_cast<rank>(m)) ? 0 : answers_[m].fresh + 1;
  on_.propose(std::as_bytes(std::span(boards)));
}

// If the network is partitioned, the members on the other side may continue, too. This side may continue if it has more
// members than the other side. If both sides have equally many members, the side with the lowest member may continue.
// Returns k_no_rank if this side may continue, else a member of the other side.
rank roll_call::find_other_side() const {
  rank living = 0, silent = 0, first = k_no_rank;
  for (rank m = 0; m < static_cast<rank>(answers_.size()); ++m) {
    if (!on_.is_lost(m)) ++living;
    if (on_.is_lost(m) && to_->is_silent(m) && silent++ == 0) first = m;
  }
  const bool may_go_on = living > silent || (living == silent && self_ < first);
  return may_go_on ? k_no_rank : first;
}

std::vector<std::uint32_t> roll_call::list() const {
  std::vector<std::uint32_t> boards(answers_.size());
  if (on_.value().size() == boards.size() * sizeof boards[0])
    std::memcpy(boards.data(), on_.value().data(), on_.value().size());
  return boards;
}

}  // namespace lsched
