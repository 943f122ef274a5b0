#include "libsched/verify/causal_history.h"

#include <algorithm>

namespace lsched {
namespace {

/// By op of rank `r`: whether it has fired whenever the rank's round ends. What its exit waits for has; so has what got
/// its tokens from ops that have, because an op in flight keeps the round open. A receive of a signal is merely armed.
std::vector<bool> fired_at_end(const assembly& all, rank r) {
  const auto count = static_cast<op_id>(all.program(r).ops().size());
  std::vector<bool> has_fired(count, false);
  has_fired[all.program(r).exit()] = true;
  for (op_id id = count; id-- > 0;) {
    const auto from = all.predecessors(all.number(r, id));
    if (!has_fired[id] || all.need(all.number(r, id)) < from.size()) continue;
    for (const op_id before : from) has_fired[before] = true;
  }
  for (op_id id = 0; id < count; ++id) {
    const world_op it = all.number(r, id);
    const auto from = all.predecessors(it);
    const auto tokens = std::count_if(from.begin(), from.end(), [&](op_id before) { return has_fired[before]; });
    if (all.kind(it) != op_kind::signal_recv && tokens >= std::ptrdiff_t{all.need(it)}) has_fired[id] = true;
  }
  return has_fired;
}

}  // namespace

causal_history::causal_history(const assembly& all, const std::vector<world_op>& order)
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
    rank_sets::id now = rank_sets::k_empty;
    if (!from.empty()) now = sets_.in_at_least(from.size() - all.need(it) + 1, known);
    const world_op entry = entry_[static_cast<std::size_t>(r)];
    if (entry == k_no_world_op) now = sets_.united(now, sets_.single(r));
    when_fired_[it] = now;
    if (entry == it) now = sets_.united(now, sets_.single(r));
    const bool hears = (kind == op_kind::recv && all.at(it).guard == 0) || kind == op_kind::signal_recv;
    if (hears && all.partner(it) != k_no_world_op) now = sets_.united(now, when_fired_[all.partner(it)]);
    when_done[it] = now;
  }
  for (rank r = 0; r < all.size(); ++r) {
    const std::vector<bool> has_fired = fired_at_end(all, r);
    rank_sets::id& end = at_end_[static_cast<std::size_t>(r)];
    for (op_id id = 0; id < has_fired.size(); ++id)
      if (has_fired[id]) end = sets_.united(end, when_done[all.number(r, id)]);
  }
}

rank causal_history::unheard_of(rank r) const {
  const rank missing = sets_.first_missing(at_end_[static_cast<std::size_t>(r)]);
  return missing < all_.size() ? missing : k_no_rank;
}

bool causal_history::is_expected(world_op receive) const {
  const rank r = all_.rank_of(receive);
  const world_op entry = entry_[static_cast<std::size_t>(r)];
  const auto from = all_.predecessors(receive);
  const bool is_posted_on_entry =
      std::all_of(from.begin(), from.end(), [&](op_id before) { return all_.number(r, before) == entry; });
  return is_posted_on_entry && all_.at(receive).guard == 0 && sets_.contains(when_fired_[all_.partner(receive)], r);
}

}  // namespace lsched
