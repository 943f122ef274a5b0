// What the engine says to people: what an instance waits for.
#include <algorithm>

#include "libsched/engine/engine.h"
#include "libsched/schedule/round.h"

namespace lsched {
namespace {

/// Whether a partial instance's open round has been activated here.
bool has_begun(const instance& inst) {
  const auto ops = inst.program->ops();
  for (op_id id = 0; id < ops.size(); ++id)
    if (ops[id].kind == op_kind::capture && inst.completed[id] == inst.round) return true;
  return false;
}

/// Who could activate it.
std::string describe_start(const instance& inst, rank* waits_for) {
  const activation& starts = inst.program->starts();
  const auto [self, size] = inst.program->place();
  if (starts.is_full(inst.round)) return " not started: it waits for this rank's own call";
  if (starts.policy == activation_policy::solo) return " not started: no rank has called for it";
  const auto [candidates, arrivals] = quota_of(starts, size);
  std::vector<rank> some = inst.present;
  if (candidates < size) std::erase_if(some, [&](rank r) { return !inst.whose.is_candidate(r); });
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

std::string engine::describe_wait(const instance& inst, rank* waits_for) const {
  const schedule& program = *inst.program;
  std::string text = inst.label + ", round " + std::to_string(open_round(inst)) + ":";
  if (!inst.calls.empty() && inst.phase == phase::running && !has_begun(inst))
    return text + describe_start(inst, waits_for);
  std::size_t unfired = 0;
  std::vector<rank> ranks;
  for (op_id id = 0; id < program.ops().size() && inst.phase == phase::running; ++id) {
    const op& o = program.ops()[id];
    if (inst.completed[id] == inst.round) continue;
    const bool is_waiting = has_fired(inst, id);
    if (!is_waiting && ++unfired <= 8) text += (unfired == 1 ? " unfired ops " : ",") + std::to_string(id);
    if (is_waiting && has_edge(o, program.place().self)) ranks.push_back(o.peer);
  }
  if (unfired > 8) text += ",… (" + std::to_string(unfired) + ")";
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (!ranks.empty()) text += "; waits for rank";
  for (std::size_t i = 0; i < ranks.size() && i < 8; ++i) text += (i == 0 ? " " : ",") + std::to_string(ranks[i]);
  if (ranks.size() > 8) text += ",…";
  if (inst.jobs != 0) text += "; " + std::to_string(inst.jobs) + " on the lane";
  if (inst.phase == phase::idle) text += " not started here";
  if (inst.phase == phase::closing)
    text += " closing, " + std::to_string(inst.last_signals) + " peers have not drained";
  if (waits_for != nullptr && !ranks.empty()) *waits_for = ranks.front();
  return text;
}

}  // namespace lsched
