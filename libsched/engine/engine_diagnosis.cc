// What the engine says to people: what an instance waits for.
#include <algorithm>

#include "libsched/engine/engine.h"

namespace lsched {
namespace {

/// Whether a partial instance's open round has been activated here.
bool has_begun(const instance& it) {
  const auto ops = it.program->ops();
  for (op_id id = 0; id < ops.size(); ++id)
    if (ops[id].kind == op_kind::capture && it.completed[id] == it.round) return true;
  return false;
}

/// Who could activate it.
std::string describe_start(const instance& it, rank* waits_for) {
  const activation& starts = it.program->starts();
  const auto [self, size] = it.program->place();
  if (starts.is_full(it.round)) return " not started: it waits for this rank's own call";
  if (starts.policy == activation_policy::solo) return " not started: no rank has called for it";
  const auto [candidates, arrivals] = quota_of(starts, size);
  std::vector<rank> some = it.present;
  if (candidates < size) std::erase_if(some, [&](rank r) { return !it.whose.is_candidate(r); });
  const auto number = std::min<std::size_t>(static_cast<std::size_t>(arrivals), some.size());
  if (some.size() == 1 && waits_for != nullptr) *waits_for = some.front();
  if (some.size() == 1)
    return " not started: it waits for the call of rank " + std::to_string(some.front()) +
           (some.front() == self ? " (this one)" : "");
  std::string text = " not started: it waits for " + std::to_string(number) + " of " + std::to_string(some.size()) +
                     (candidates < size ? " drawn ranks to call:" : " ranks to call");
  for (std::size_t i = 0; candidates < size && i < some.size() && i < 8; ++i)
    text += (i == 0 ? " " : ",") + std::to_string(some[i]);
  if (candidates < size && some.size() > 8) text += ",…";
  return text;
}

}  // namespace

std::string engine::describe_wait(const instance& it, rank* waits_for) const {
  const schedule& program = *it.program;
  std::string text = it.label + ", round " + std::to_string(open_round(it)) + ":";
  if (!it.calls.empty() && it.phase == phase::running && !has_begun(it)) return text + describe_start(it, waits_for);
  std::size_t unfired = 0;
  std::vector<rank> ranks;
  for (op_id id = 0; id < program.ops().size() && it.phase == phase::running; ++id) {
    const op& what = program.ops()[id];
    if (it.completed[id] == it.round) continue;
    const bool has_fired = is_enabled(it.counts[id].in(it.round), what.need);
    if (!has_fired && ++unfired <= 8) text += (unfired == 1 ? " unfired ops " : ",") + std::to_string(id);
    if (has_fired && is_communication(what.kind) && what.peer != program.place().self) ranks.push_back(what.peer);
  }
  if (unfired > 8) text += ",… (" + std::to_string(unfired) + ")";
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (!ranks.empty()) text += "; waits for rank";
  for (std::size_t i = 0; i < ranks.size() && i < 8; ++i) text += (i == 0 ? " " : ",") + std::to_string(ranks[i]);
  if (ranks.size() > 8) text += ",…";
  if (it.jobs != 0) text += "; " + std::to_string(it.jobs) + " on the lane";
  if (it.phase == phase::idle) text += " not started here";
  if (it.phase == phase::closing)
    text += " closing, " + std::to_string(it.last_signals) + " peers have not said their last";
  if (waits_for != nullptr && !ranks.empty()) *waits_for = ranks.front();
  return text;
}

}  // namespace lsched
