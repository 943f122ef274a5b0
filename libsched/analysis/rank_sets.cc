#include "libsched/analysis/rank_sets.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace lsched {

rank_sets::id rank_sets::united(id x, id y) {
  if (x == y || y == k_empty) return x;
  if (x == k_empty) return y;
  const auto [known, is_new] = unions_.try_emplace(std::uint64_t{std::min(x, y)} << 32 | std::max(x, y), k_empty);
  if (is_new) known->second = keep(merged(*contents_[x], *contents_[y]));
  return known->second;
}

rank_sets::content rank_sets::merged(const content& x, const content& y) {
  content all;
  all.reserve(x.size() + y.size());
  std::ranges::merge(x, y, std::back_inserter(all));
  std::size_t last = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i].first <= all[last].end)
      all[last].end = std::max(all[last].end, all[i].end);
    else
      all[++last] = all[i];
  }
  all.resize(last + 1);
  return all;
}

rank_sets::id rank_sets::in_at_least(std::size_t least, std::span<const id> sets) {
  if (sets.size() < least) return k_empty;
  if (std::ranges::all_of(sets, [&](id set) { return set == sets.front(); })) return sets.front();
  constexpr std::size_t k_few = 4;  // for more sets, the cached unions of pairs are rarely used again
  if (least == 1 && sets.size() <= k_few)
    return std::accumulate(sets.begin() + 1, sets.end(), sets.front(), [&](id x, id y) { return united(x, y); });
  ends_.clear();
  for (const id set : sets)
    for (const interval& part : *contents_[set]) {
      ends_.emplace_back(part.first, 1);
      ends_.emplace_back(part.end, -1);
    }
  std::ranges::sort(ends_);
  content found;
  const auto enough = static_cast<int>(least);
  int depth = 0;
  for (std::size_t i = 0; i < ends_.size();) {
    const rank place = ends_[i].first;
    const bool was_in = depth >= enough;
    for (; i < ends_.size() && ends_[i].first == place; ++i) depth += ends_[i].second;
    if (!was_in && depth >= enough) found.push_back({place, place});
    if (was_in && depth < enough) found.back().end = place;
  }
  return keep(found);
}

rank_sets::id rank_sets::keep(const content& wanted) {
  const auto [entry, is_new] = ids_.try_emplace(wanted, static_cast<id>(contents_.size()));
  if (is_new) contents_.push_back(&entry->first);
  return entry->second;
}

bool rank_sets::contains(id set, rank r) const {
  const auto next = std::ranges::upper_bound(*contents_[set], r, {}, &interval::end);
  return next != contents_[set]->end() && next->first <= r;
}

rank rank_sets::first_missing(id set) const {
  const content& all = *contents_[set];
  return all.empty() || all.front().first > 0 ? 0 : all.front().end;
}

}  // namespace lsched
