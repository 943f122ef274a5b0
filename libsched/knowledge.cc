#include "libsched/knowledge.h"

#include <algorithm>

namespace lsched {

knowledge::knowledge(const assembly& all, const std::vector<world_op>& order)
    : all_(all),
      entry_(static_cast<std::size_t>(all.size()), k_no_world_op),
      when_fired_(all.op_count(), rank_sets::k_empty),
      at_end_(static_cast<std::size_t>(all.size()), rank_sets::k_empty) {
  for (world_op it = 0; it < all.op_count(); ++it) {
    world_op& entry = entry_[static_cast<std::size_t>(all.rank_of(it))];
    if (all.kind(it) == op_kind::capture || (entry == k_no_world_op && all.is_call(it))) entry = it;
  }
  std::vector<rank_sets::id> when_done(all.op_count(), rank_sets::k_empty);
  std::vector<rank_sets::id> known;
  for (const world_op it : order) {
    const rank r = all.rank_of(it);
    const op_kind kind = all.kind(it);
    const auto from = all.predecessors(it);
    known.clear();
    for (const op_id before : from) known.push_back(when_done[all.number(r, before)]);
    rank_sets::id now = rank_sets::k_empty;  // a capture's: any call may have woken it, so nobody's in particular
    if (kind != op_kind::capture && !from.empty()) now = sets_.in_at_least(from.size() - all.need(it) + 1, known);
    const world_op entry = entry_[static_cast<std::size_t>(r)];
    if (entry == k_no_world_op) now = sets_.united(now, sets_.single(r));
    when_fired_[it] = now;
    if (entry == it) now = sets_.united(now, sets_.single(r));
    const bool hears = kind == op_kind::recv || kind == op_kind::signal_recv;
    if (hears && all.partner(it) != k_no_world_op) now = sets_.united(now, when_fired_[all.partner(it)]);
    when_done[it] = now;
    rank_sets::id& end = at_end_[static_cast<std::size_t>(r)];
    end = sets_.united(end, now);
  }
}

rank knowledge::unheard_of(rank r) const {
  const rank missing = sets_.first_missing(at_end_[static_cast<std::size_t>(r)]);
  return missing < all_.size() ? missing : k_no_rank;
}

bool knowledge::is_expected(world_op receive) const {
  const rank r = all_.rank_of(receive);
  const world_op entry = entry_[static_cast<std::size_t>(r)];
  const auto from = all_.predecessors(receive);
  const bool is_posted_on_entry = std::all_of(from.begin(), from.end(), [&](op_id before) {
    return all_.number(r, before) == entry;
  });
  return is_posted_on_entry && sets_.contains(when_fired_[all_.partner(receive)], r);
}

}  // namespace lsched
