#include "libsched/session/group_log.h"

#include <algorithm>
#include <numeric>

namespace lsched {

group_log::group_log(group_shape shape, const activation& starts)
    : shape_(shape),
      starts_(among(starts, shape.groups)),
      quota_(quota_of(starts_, shape.groups)),
      drawn_(shape.groups),
      all_groups_(static_cast<std::size_t>(shape.groups)),
      state_(begun_at() + 4) {
  std::iota(all_groups_.begin(), all_groups_.end(), 0);
}

bool group_log::is_final() const {
  for (rank r = 0; r < shape_.ranks(); ++r)
    if (state_[ends_at(r)] < begun()) return false;
  return true;
}

std::uint64_t group_log::offered_by(rank group) const {
  const auto shards =
      std::span(state_).subspan(offers_at(group * shape_.shards), static_cast<std::size_t>(shape_.shards));
  return std::ranges::min(shards);
}

rank group_log::find_uneven() const {
  for (const rank g : all_groups_)
    for (rank s = 0; s < shape_.shards; ++s)
      if (state_[offers_at(g * shape_.shards + s)] != offered_by(g)) return g;
  return k_no_rank;
}

bool group_log::is_flushing(rank group) const {
  for (rank s = 0; s < shape_.shards; ++s)
    if (state_[flushes_at(group * shape_.shards + s)] == flushes_begun()) return false;
  return true;
}

bool group_log::has_enough(round_no next) {
  const auto is_ready = [&](rank g) { return has_new_offers(g) || is_flushing(g); };
  if (std::ranges::none_of(all_groups_, [&](rank g) { return has_new_offers(g); })) return false;
  if (starts_.is_full(next)) return std::ranges::all_of(all_groups_, is_ready);
  drawn_.draw(starts_.seed, next, all_groups_, quota_.candidates);
  return std::ranges::count_if(all_groups_, [&](rank g) { return drawn_.holds(g) && is_ready(g); }) >= quota_.arrivals;
}

bool group_log::apply(std::span<const std::uint64_t> entry) {
  for (std::size_t i = 0; i < width(); ++i) state_[i] += entry[i];
  const bool flushes = std::ranges::all_of(all_groups_, [&](rank g) { return is_flushing(g); });
  if (!is_final() || !(flushes || has_enough(begun() + 1))) return false;
  std::uint64_t in = 0;
  for (const rank g : all_groups_)
    if (has_new_offers(g)) in |= std::uint64_t{1} << g;
  for (const rank g : all_groups_) state_[taken_at(g)] = offered_by(g);
  ++state_[begun_at()];
  state_[begun_at() + 1] = in;
  state_[begun_at() + 2] += flushes ? 1 : 0;
  state_[begun_at() + 3] = flushes ? 1 : 0;
  return true;
}

}  // namespace lsched
