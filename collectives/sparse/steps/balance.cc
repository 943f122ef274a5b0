#include "collectives/sparse/steps/balance.h"

#include <algorithm>
#include <numeric>

namespace lsched {
namespace {

std::size_t place(rank r) { return static_cast<std::size_t>(r); }

}  // namespace

balance_plan::balance_plan(rank size)
    : size_(size), kept_ends_(place(size) + 1), share_ends_(place(size) + 1), shares_(place(size)) {}

void balance_plan::make(std::span<const std::uint64_t> kept, balance_rule rule) {
  std::partial_sum(kept.begin(), kept.end(), kept_ends_.begin() + 1);
  const auto most = std::max_element(kept.begin(), kept.end());
  const auto keeps_most = static_cast<rank>(most - kept.begin());
  share_as_kept();
  if (rule == balance_rule::never) return;
  const bool is_far_off = *most > 4 * total() / place(size_);
  if (rule == balance_rule::published && !is_far_off) return;
  const std::uint64_t as_kept = cost();
  share_equally(keeps_most);
  if (rule == balance_rule::cost && as_kept <= cost()) share_as_kept();
}

void balance_plan::share_as_kept() {
  is_balanced_ = false;
  share_ends_ = kept_ends_;
  for (std::size_t i = 0; i < shares_.size(); ++i) shares_[i] = share_ends_[i + 1] - share_ends_[i];
}

void balance_plan::share_equally(rank keeps_most) {
  is_balanced_ = true;
  const equal_shares parts(kept_ends_.back(), size_, keeps_most);
  for (std::size_t i = 0; i <= shares_.size(); ++i) share_ends_[i] = parts.begin(i);
  for (std::size_t i = 0; i < shares_.size(); ++i) shares_[i] = share_ends_[i + 1] - share_ends_[i];
}

std::uint64_t balance_plan::cost() const {
  std::uint64_t most = 0;
  for (rank r = 0; r < size_; ++r) {
    const item_traffic moved = exchanged_by(r), gathered = gathered_by(r);
    most = std::max({most, moved.sent + gathered.sent, moved.received + gathered.received});
  }
  return most;
}

std::uint64_t balance_plan::common(rank owner, rank receiver) const {
  const std::uint64_t begin = std::max(kept_ends_[place(owner)], share_ends_[place(receiver)]);
  const std::uint64_t end = std::min(kept_ends_[place(owner) + 1], share_ends_[place(receiver) + 1]);
  return end > begin ? end - begin : 0;
}

void balance_plan::pieces_of(rank owner, std::span<std::uint64_t> lengths) const {
  for (rank to = 0; to < size_; ++to) lengths[place(to)] = common(owner, to);
}

void balance_plan::sources_of(rank receiver, std::span<std::uint64_t> lengths) const {
  for (rank owner = 0; owner < size_; ++owner) lengths[place(owner)] = common(owner, receiver);
}

item_traffic balance_plan::exchanged_by(rank self) const {
  const std::uint64_t stays = common(self, self);
  return {kept_ends_[place(self) + 1] - kept_ends_[place(self)] - stays, shares_[place(self)] - stays};
}

/// Returns the number of items in the shares of ranks first … first + count - 1 (mod P).
std::uint64_t balance_plan::shares_from(rank first, rank count) const {
  const rank before_wrap = std::min(count, size_ - first);
  return share_ends_[place(first + before_wrap)] - share_ends_[place(first)] + share_ends_[place(count - before_wrap)];
}

item_traffic balance_plan::gathered_by(rank self) const {
  item_traffic all{0, total() - shares_[place(self)]};
  for (std::int64_t distance = 1; distance < size_; distance *= 2)
    all.sent += shares_from(self, static_cast<rank>(std::min<std::int64_t>(distance, size_ - distance)));
  return all;
}

}  // namespace lsched
