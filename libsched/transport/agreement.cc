#include "libsched/transport/agreement.h"

#include <algorithm>
#include <utility>

namespace lsched {

agreement::agreement(rank self, rank members, bool is_lossless, sender& to)
    : self_(self), is_lossless_(is_lossless), to_(&to), is_lost_(static_cast<std::size_t>(members)) {}

rank agreement::proposer() const { return static_cast<rank>(std::ranges::find(is_lost_, false) - is_lost_.begin()); }

rank agreement::find_undecided() const {
  for (std::size_t m = 0; m < has_accepted_.size(); ++m)
    if (!has_accepted_[m] && !is_lost_[m]) return static_cast<rank>(m);
  return k_no_rank;
}

void agreement::send_all(const message& what) const {
  for (std::size_t m = 0; m < is_lost_.size(); ++m)
    if (static_cast<rank>(m) != self_ && !is_lost_[m]) to_->send(static_cast<rank>(m), what);
}

void agreement::begin(std::uint64_t number) {
  number_ = number;
  phase_ = phase::open;
  has_proposed_ = is_own_ = false;
  asked_ = k_no_rank;
  has_accepted_.clear();
  refusals_.assign(is_lost_.size(), std::nullopt);
  const auto known = refused_.find(number);
  if (known != refused_.end()) end(phase::refused, known->second);
  refused_.erase(refused_.begin(), refused_.upper_bound(number));
}

void agreement::propose(std::span<const std::byte> value) {
  value_.assign(value.begin(), value.end());
  phase_ = phase::accepted;
  is_own_ = true;
  advance();
}

// A proposer may refuse its own new proposal, because no other member can settle this proposal.
bool agreement::refuse(const refusal& about) {
  if (phase_ != phase::open && !(phase_ == phase::accepted && is_own_)) return false;
  end(phase::refused, about);
  send_all({kind::refuse, number_, about});
  return true;
}

void agreement::refuse_later(std::uint64_t number, const refusal& about) {
  refused_.emplace(number, about);
  send_all({kind::refuse, number, about});
}

void agreement::take(rank from, const message& what) {
  if (is_lost(from)) return;
  switch (what.kind) {
    case kind::propose: return take_proposal(from, what);
    case kind::refuse: return take_refusal(from, what);
    case kind::accept: return take_acceptance(from, what.number);
    case kind::settled:
      if (what.number != number_ || is_over() || phase_ == phase::idle) return;
      if (is_lossless_) value_.assign(what.value.begin(), what.value.end());
      return end(phase::settled);
  }
}

// Records that all members below `member` are lost. All of them must be lost if `member` proposes, or if another member
// sends an acceptance to `member`.
void agreement::lose_below(rank member) {
  for (rank below = 0; below < member; ++below) is_lost_[static_cast<std::size_t>(below)] = true;
}

void agreement::take_acceptance(rank from, std::uint64_t number) {
  lose_below(self_);
  if (number <= last_settled_) return to_->send(from, {kind::settled, number});
  if (number < number_ || phase_ == phase::refused) return to_->send(from, {kind::refuse, number, why_});
  advance();
  if (has_proposed_) has_accepted_[static_cast<std::size_t>(from)] = true;
  advance();
}

// A member that has already settled the agreement accepts its value again.
void agreement::take_proposal(rank from, const message& what) {
  lose_below(from);
  const bool takes_part = what.number == number_ && (phase_ == phase::open || phase_ == phase::accepted);
  if (takes_part) {
    value_.assign(what.value.begin(), what.value.end());
    phase_ = phase::accepted;
    asked_ = from;
  }
  if (takes_part || what.number <= last_settled_)
    to_->send(from, {kind::accept, what.number});
  else
    to_->send(from, {kind::refuse, what.number, what.number == number_ ? why_ : refusal{}});
  advance();
}

void agreement::take_refusal(rank from, const message& what) {
  if (what.number > number_) refused_.emplace(what.number, what.about);
  if (what.number != number_ || is_over() || phase_ == phase::idle) return;
  if (phase_ == phase::open) {
    end(phase::refused, what.about);
    if (proposer() == self_) send_all(what);
    return;
  }
  refusals_[static_cast<std::size_t>(from)] = what.about;
  advance();
}

void agreement::lose(rank member) {
  note_lost(member);
  advance();
}

void agreement::advance() {
  if (phase_ != phase::accepted) return;
  const rank first = proposer();
  if (first != self_) {
    if (const auto& about = refusals_[static_cast<std::size_t>(first)]) return end(phase::refused, *about);
    if (std::exchange(asked_, first) != first) to_->send(first, {kind::accept, number_});
    return;
  }
  if (is_lossless_) {
    send_all({kind::settled, number_, {}, value_});
    return end(phase::settled);
  }
  if (!has_proposed_) {
    has_proposed_ = true;
    has_accepted_.assign(is_lost_.size(), false);
    has_accepted_[static_cast<std::size_t>(self_)] = true;
    send_all({kind::propose, number_, {}, value_});
  }
  for (std::size_t m = 0; m < refusals_.size(); ++m) {
    if (is_lost_[m] || !refusals_[m]) continue;
    const refusal about = *refusals_[m];
    end(phase::refused, about);
    return send_all({kind::refuse, number_, about});
  }
  if (find_undecided() != k_no_rank) return;
  send_all({kind::settled, number_});
  end(phase::settled);
}

void agreement::end(enum phase how, const refusal& why) {
  phase_ = how;
  why_ = why;
  if (how == phase::settled) last_settled_ = number_;
}

}  // namespace lsched
