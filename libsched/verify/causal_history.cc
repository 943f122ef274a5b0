#include "libsched/verify/causal_history.h"

#include <algorithm>

#include "libsched/analysis/rank_sets.h"

namespace lsched {

causal_history causal_history_of(const assembly& all, const std::vector<world_op>& order,
                                 const std::vector<std::vector<bool>>& fired_by_end) {
  // For each rank, the op by which it enters, or k_no_world_op if it enters when its round begins.
  std::vector<world_op> entries(static_cast<std::size_t>(all.size()), k_no_world_op);
  for (world_op id = 0; id < all.op_count(); ++id) {
    world_op& entry = entries[static_cast<std::size_t>(all.rank_of(id))];
    if (all.kind(id) == op_kind::capture || (entry == k_no_world_op && all.is_call(id))) entry = id;
  }
  rank_sets sets;
  std::vector<rank_sets::id> when_fired(all.op_count(), rank_sets::k_empty), when_done = when_fired, known;
  for (const world_op id : order) {
    const rank r = all.rank_of(id);
    const world_op entry = entries[static_cast<std::size_t>(r)];
    const auto deps = all.predecessors(id);
    known.clear();
    for (const op_id dep : deps) known.push_back(when_done[all.number(r, dep)]);
    rank_sets::id now = rank_sets::k_empty;
    if (!deps.empty()) now = sets.in_at_least(deps.size() - all.need(id) + 1, known);
    if (entry == k_no_world_op) now = sets.united(now, sets.single(r));
    when_fired[id] = now;
    if (entry == id) now = sets.united(now, sets.single(r));
    const op_kind kind = all.kind(id);
    const bool hears = (kind == op_kind::recv && all.at(id).guard == 0) || kind == op_kind::signal_recv;
    if (hears && all.partner(id) != k_no_world_op) now = sets.united(now, when_fired[all.partner(id)]);
    when_done[id] = now;
  }

  causal_history history;
  for (rank r = 0; r < all.size(); ++r) {
    const std::vector<bool>& has_fired = fired_by_end[static_cast<std::size_t>(r)];
    rank_sets::id end = rank_sets::k_empty;
    for (op_id id = 0; id < has_fired.size(); ++id)
      if (has_fired[id]) end = sets.united(end, when_done[all.number(r, id)]);
    const rank missing = sets.first_missing(end);
    history.unheard.push_back(missing < all.size() ? missing : k_no_rank);
  }
  history.is_expected.resize(all.op_count());
  for (world_op id = 0; id < all.op_count(); ++id) {
    if (all.kind(id) != op_kind::recv || all.at(id).guard != 0) continue;
    const rank r = all.rank_of(id);
    const bool is_posted_on_entry = std::ranges::all_of(
        all.predecessors(id), [&](op_id dep) { return all.number(r, dep) == entries[static_cast<std::size_t>(r)]; });
    history.is_expected[id] = is_posted_on_entry && sets.contains(when_fired[all.partner(id)], r);
  }
  return history;
}

}  // namespace lsched
