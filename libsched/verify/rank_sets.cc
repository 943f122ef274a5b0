#include "libsched/verify/rank_sets.h"

#include <algorithm>
#include <array>

namespace lsched {

rank_sets::rank_sets() : first_{0} { keep({}); }

rank_sets::id rank_sets::single(rank r) {
  const interval only{r, r + 1};
  return keep({&only, 1});
}

rank_sets::id rank_sets::united(id x, id y) {
  if (x == y || y == k_empty) return x;
  if (x == k_empty) return y;
  return in_at_least(1, std::array{x, y});
}

rank_sets::id rank_sets::in_at_least(std::size_t least, std::span<const id> sets) {
  if (sets.size() < least) return k_empty;
  if (std::all_of(sets.begin(), sets.end(), [&](id it) { return it == sets.front(); })) return sets.front();
  ends_.clear();
  for (const id set : sets)
    for (const interval& it : at(set)) {
      ends_.emplace_back(it.first, 1);
      ends_.emplace_back(it.end, -1);
    }
  std::sort(ends_.begin(), ends_.end());
  fresh_.clear();
  const auto enough = static_cast<int>(least);
  int depth = 0;
  for (std::size_t i = 0; i < ends_.size();) {
    const rank place = ends_[i].first;
    const bool was_in = depth >= enough;
    for (; i < ends_.size() && ends_[i].first == place; ++i) depth += ends_[i].second;
    if (!was_in && depth >= enough) fresh_.push_back({place, place});
    if (was_in && depth < enough) fresh_.back().end = place;
  }
  return keep(fresh_);
}

rank_sets::id rank_sets::keep(std::span<const interval> content) {
  std::uint64_t hash = 0;
  for (const interval& it : content) {
    hash = (hash ^ static_cast<std::uint64_t>(it.first)) * 0x9e3779b97f4a7c15;
    hash = (hash ^ static_cast<std::uint64_t>(it.end)) * 0xbf58476d1ce4e5b9;
    hash ^= hash >> 32;
  }
  const auto [begin, end] = known_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (std::equal(content.begin(), content.end(), at(it->second).begin(), at(it->second).end())) return it->second;
  const auto number = static_cast<id>(first_.size() - 1);
  intervals_.insert(intervals_.end(), content.begin(), content.end());
  first_.push_back(intervals_.size());
  known_.emplace(hash, number);
  return number;
}

bool rank_sets::contains(id set, rank r) const {
  const auto all = at(set);
  const auto next = std::upper_bound(all.begin(), all.end(), r, [](rank x, const interval& it) { return x < it.end; });
  return next != all.end() && next->first <= r;
}

rank rank_sets::first_missing(id set) const {
  const auto all = at(set);
  return all.empty() || all.front().first > 0 ? 0 : all.front().end;
}

}  // namespace lsched
