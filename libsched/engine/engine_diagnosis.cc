// Diagnosis: describes what instances wait for and finds the rank to blame.
#include <algorithm>

#include "libsched/engine/engine.h"
#include "libsched/schedule/round.h"
#include "libsched/trace/trace_buffer.h"
#include "ops/counted.h"

namespace lsched {
namespace {

/// Returns true if the open round of a partial instance has been activated on this rank.
bool has_begun(const instance& inst) {
  const auto ops = inst.program->ops();
  for (op_id id = 0; id < ops.size(); ++id)
    if (ops[id].kind == op_kind::capture && inst.completed[id] == inst.round) return true;
  return false;
}

/// Describes which ranks could activate the open round of a partial instance.
std::string describe_start(const instance& inst, rank* waits_for) {
  const activation& starts = inst.program->starts();
  const auto [self, size] = inst.program->place();
  if (starts.is_full(counted(inst, inst.round))) return " not started: waits for this rank's own call";
  if (starts.policy == activation_policy::deadline)
    return " not started here: no waiting rank has reached its deadline";
  if (starts.policy == activation_policy::solo) return " not started: no rank has called";
  if (const std::uint64_t due_ns = inst.partial->grace_due_ns; due_ns != k_never) {
    const std::uint64_t now_ns = trace_buffer::now_ns();
    return " not started: at least " + std::to_string(starts.number) +
           " ranks have called, and the other ranks have a grace of " +
           std::to_string(due_ns > now_ns ? (due_ns - now_ns) / 1000 : 0) + " us left";
  }
  const auto [candidates, arrivals] = quota_of(starts, size);
  std::vector<rank> some = inst.present;
  if (candidates < size) std::erase_if(some, [&](rank r) { return !inst.partial->whose.is_candidate(r); });
  const auto number = std::min<std::size_t>(static_cast<std::size_t>(arrivals), some.size());
  if (some.size() == 1 && waits_for != nullptr) *waits_for = some.front();
  if (some.size() == 1)
    return " not started: waits for the call of rank " + std::to_string(some.front()) +
           (some.front() == self ? " (this rank)" : "");
  std::string text = " not started: waits for calls of " + std::to_string(number) + " of " +
                     std::to_string(some.size()) + (candidates < size ? " drawn ranks:" : " ranks");
  for (std::size_t i = 0; candidates < size && i < some.size() && i < 8; ++i)
    text += (i == 0 ? " " : ",") + std::to_string(some[i]);
  if (candidates < size && some.size() > 8) text += ",…";
  if (has_grace(starts, size) && number < some.size())
    text += ", and then at most " + std::to_string(starts.grace_us) + " us for the others";
  return text;
}

bool waits_for_all_calls(const instance& inst) {
  return !inst.program->is_partial() || inst.partial->whose.waits_for_all();
}

}  // namespace

instance* engine::instance_on_record(std::uint64_t number) const {
  const auto found = std::ranges::find_if(
      instances_, [number](const auto& inst) { return inst != nullptr && inst->number_on_record == number; });
  return found == instances_.end() ? nullptr : found->get();
}

/// Returns the ranks whose application has not called for `round`. `round` is in the application's numbering.
std::vector<rank> engine::ranks_late_for(const instance& inst, round_no round) const {
  std::vector<rank> late;
  for (const rank r : inst.present) {
    const auto entered = net_.recorder().entered_by(inst.members->home_of(r), inst.id);
    if (entered && *entered < round) late.push_back(r);
  }
  return late;
}

/// Returns a member whose process is stopped or ending, or k_no_rank.
rank engine::find_stopped(const membership& of, std::string& text) const {
  for (rank r = 0; r < of.place().size; ++r) {
    const rank_state state = net_.recorder().state_of(of.home_of(r));
    if (state != rank_state::stopped && state != rank_state::ending) continue;
    text += "; rank " + std::to_string(r) + (state == rank_state::stopped ? " is stopped" : " is being terminated");
    return r;
  }
  return k_no_rank;
}

/// Returns the rank to blame, or k_no_rank. A rank whose process is stopped or ending comes first. Otherwise a rank
/// that has not called for the round is to blame. If that rank itself waits, the search continues with the round or
/// message for which it waits.
rank engine::find_culprit(const instance& inst, std::string& text) const {
  rank culprit = find_stopped(*inst.members, text);
  if (culprit != k_no_rank) return culprit;
  const instance* where = &inst;
  round_no round = counted(inst, open_round(inst));
  std::vector<const instance*> looked_at;
  while (where != nullptr && waits_for_all_calls(*where) && std::ranges::find(looked_at, where) == looked_at.end()) {
    looked_at.push_back(where);
    const std::vector<rank> late = ranks_late_for(*where, round);
    if (late.empty()) break;
    culprit = late.front();
    text += "; this round was not entered by " + listed(late, "rank");
    const wait_note wait = net_.recorder().wait_of(inst.members->home_of(culprit));
    if (wait.is_of_message()) {
      const rank late_there = end_of_waits(*inst.members, culprit, text);
      return late_there == k_no_rank ? culprit : late_there;
    }
    where = wait.round == 0 ? nullptr : instance_on_record(wait.instance);
    if (where != nullptr && (where->phase == phase::failed || where->members != inst.members)) where = nullptr;
    round = wait.round;
    if (where != nullptr)
      text += "; rank " + std::to_string(culprit) + " waits in " + where->label + ", round " + std::to_string(round);
  }
  return culprit;
}

/// Follows the chain of waits from member `from`. Returns the first member that does not wait, or that waits for a rank
/// outside the world. Returns k_no_rank if the chain leads back to this rank or to an earlier rank of the chain.
rank engine::end_of_waits(const membership& of, rank from, std::string& text) const {
  std::vector<rank> passed{of.place().self};
  for (rank at = from;;) {
    if (std::ranges::find(passed, at) != passed.end()) return k_no_rank;
    passed.push_back(at);
    const wait_note wait = net_.recorder().wait_of(of.home_of(at));
    const rank next = wait.round == 0 ? k_no_rank : of.rank_of(wait.peer);
    if (next == k_no_rank) return at;
    text += "; rank " + std::to_string(at) + " waits for rank " + std::to_string(next);
    at = next;
  }
}

// If a member's chain of waits leads back to this rank, the member cannot proceed before this rank does. So this
// function blames another member if possible.
rank engine::find_late(const membership& of, std::span<const rank> awaited, std::string& text) const {
  if (const rank stopped = find_stopped(of, text); stopped != k_no_rank) return stopped;
  std::string first_path;
  for (const rank one : awaited) {
    std::string path;
    const rank late = end_of_waits(of, one, path);
    if (late != k_no_rank) return text += path, late;
    if (first_path.empty()) first_path = path;
  }
  text += first_path;
  return awaited.empty() ? k_no_rank : awaited.front();
}

std::string engine::describe_commit(const instance& inst, rank* waits_for) const {
  std::string text = inst.label + ":";
  rank late = k_no_rank;
  for (const engine_task* task : tasks_)
    if (const std::string what = task->describe_wait(*inst.members, &late); !what.empty()) text += " " + what;
  const rank stopped = find_stopped(*inst.members, text);
  if (waits_for != nullptr) *waits_for = stopped != k_no_rank ? stopped : late;
  return text;
}

// Describes a failure. A wait for a failed instance ends only when no peer reads this rank's memory any more. So the
// text names a peer that still reads.
std::string engine::describe_failure(const instance& inst, rank* culprit) const {
  const rank who = inst.culprit.load();
  const rank reader = inst.verdict.load() == status::ok ? reader_of(inst) : k_no_rank;
  std::string text = inst.label + ": " + std::string(text_of(inst.failed_with));
  if (who != k_no_rank) text += ", rank " + std::to_string(who);
  if (reader != k_no_rank) text += "; rank " + std::to_string(reader) + " still reads this rank's memory";
  if (culprit != nullptr) *culprit = reader != k_no_rank ? reader : who;
  return text;
}

std::string engine::describe_wait(const instance& inst, rank* waits_for) const {
  const schedule& program = *inst.program;
  if (inst.phase == phase::failed) return describe_failure(inst, waits_for);
  if (inst.phase == phase::committing) return describe_commit(inst, waits_for);
  std::string text = inst.label + ", round " + std::to_string(counted(inst, open_round(inst))) + ":";
  rank neighbour = k_no_rank;
  if (inst.partial != nullptr && inst.phase == phase::running && !has_begun(inst)) {
    text += describe_start(inst, &neighbour);
  } else {
    std::size_t unfired = 0;
    std::vector<rank> ranks;
    for (op_id id = 0; id < program.ops().size() && inst.phase == phase::running; ++id) {
      const op& o = program.ops()[id];
      if (inst.completed[id] == inst.round) continue;
      const bool is_waiting = has_fired(inst, id);
      if (!is_waiting && ++unfired <= 8) text += (unfired == 1 ? " ops not started: " : ",") + std::to_string(id);
      if (is_waiting && has_edge(o, program.place().self)) ranks.push_back(o.peer);
    }
    if (unfired > 8) text += ",… (" + std::to_string(unfired) + ")";
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    if (!ranks.empty()) text += "; waits for " + listed(ranks, "rank");
    if (!ranks.empty()) neighbour = ranks.front();
    if (inst.jobs != 0)
      text += "; jobs: " + std::to_string(inst.jobs) +
              (uses_device(inst) ? " on the device or on oneTBB workers" : " on oneTBB workers");
    if (inst.phase == phase::idle) text += waits_at_gate(inst) ? " waits for the caller's stream" : " not started here";
    if (inst.phase == phase::closing)
      text += " closing, waits for " + std::to_string(inst.partial->last_signals) + " peers to end their rounds";
  }
  const rank culprit = inst.phase == phase::running ? find_culprit(inst, text) : k_no_rank;
  if (waits_for != nullptr) *waits_for = culprit != k_no_rank ? culprit : neighbour;
  return text;
}

std::string engine::describe_waits(const membership& of, rank* waits_for) const {
  std::string text;
  *waits_for = k_no_rank;
  for (const auto& inst : instances_) {
    if (inst == nullptr || inst->members.get() != &of) continue;
    const bool is_called = !inst->program->is_partial() || inst->called.load() > inst->finished.load();
    const bool waits = inst->phase == phase::committing || inst->phase == phase::closing || waits_at_gate(*inst) ||
                       (inst->phase == phase::running && is_called);
    rank blamed = k_no_rank;
    if (waits || inst->phase == phase::failed) text += describe_wait(*inst, &blamed) + "\n";
    if (*waits_for == k_no_rank) *waits_for = blamed;
  }
  return text;
}

void engine::note_wait(const instance& inst, std::uint64_t since_ns) {
  wait_note note{.instance = inst.number_on_record, .round = counted(inst, open_round(inst)), .since_ns = since_ns};
  const schedule& program = *inst.program;
  for (op_id id = 0; id < program.ops().size() && inst.phase == phase::running && note.op == k_no_op; ++id) {
    const op& o = program.ops()[id];
    if (inst.completed[id] == inst.round || !has_fired(inst, id) || !has_edge(o, program.place().self)) continue;
    note.op = id;
    note.peer = inst.members->home_of(o.peer);
    note.kind = o.kind;
    note.tag = o.tag;
  }
  net_.recorder().note_wait(note);
}

}  // namespace lsched
