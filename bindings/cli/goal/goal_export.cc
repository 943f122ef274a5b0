// Schedules -> GOAL: writes the ops that started (fired) in a simulated round, and the deps that these ops waited for.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "bindings/cli/goal/goal.h"
#include "libsched/simulate/simulation.h"
#include "libsched/schedule/geometry.h"
#include "libsched/schedule/round.h"
#include "ops/counted.h"

namespace lsched {
namespace {

std::size_t index_of(rank r) { return static_cast<std::size_t>(r); }

// --- a round in which only messages take time, one unit each -----------------------------------------------------

/// A time after the end of the round. Calls that must not start the round are made at this time.
constexpr picoseconds k_after_all = k_forever / 2;

simulated_round unit_time_round(const activation& starts, rank size, rank initiator) {
  simulated_round round;
  round.where.levels = {{.cost = {.L = 1, .o = 0, .g = 0, .G = 0}}};
  round.where.S = std::numeric_limits<std::uint64_t>::max();
  round.initiator = initiator;
  if (!starts.is_woken() || starts.is_full(round.instance)) return round;
  std::vector<rank> all(index_of(size));
  std::iota(all.begin(), all.end(), 0);
  round_calls calls(starts, size);
  calls.open(round.instance, all);
  std::vector<picoseconds> call_times(index_of(size), k_after_all);
  rank callers = 0;
  const rank needed = has_grace(starts, size) ? size : quota_of(starts, size).arrivals;  // no grace in the unit of time
  for (rank i = 0; i < size && callers < needed; ++i) {
    const rank caller = ring_after(initiator, i, size);
    if (!calls.is_candidate(caller)) continue;
    if (callers++ == 0) round.initiator = caller;
    call_times[index_of(caller)] = 0;
  }
  round.starts = [times = std::move(call_times)](rank r) { return times[index_of(r)]; };
  return round;
}

// --- the simulated round -----------------------------------------------------------------------------------------

/// The ops and deps of one rank in a simulated round.
struct played_rank {
  std::vector<bool> done;        ///< true if the op was executed, indexed by op
  std::vector<bool> is_void;     ///< true if the op's guard was false, so that the op did nothing, indexed by op
  std::vector<goal_edge> edges;  ///< deps for which ops waited before they started; `before` and `after` are op ids
};

/// Drops calls that made no op start. The export turns a call into a calc that lasts until the time of the call. Such a
/// calc would delay the other ops of the rank without need.
void drop_idle_calls(const schedule& program, played_rank& me) {
  for (op_id id = 0; id < me.done.size(); ++id) {
    if (!is_call(program.ops()[id], program.place().self)) continue;
    me.done[id] = me.done[id] && std::ranges::any_of(me.edges, [&](const goal_edge& dep) {
                    return dep.before == id && me.done[dep.after];
                  });
  }
}

std::vector<played_rank> played_in(std::span<const schedule_ptr> world, const simulation_record& record) {
  std::vector<played_rank> all(world.size());
  for (std::size_t r = 0; r < world.size(); ++r) {
    all[r].done.resize(world[r]->ops().size());
    all[r].is_void.resize(world[r]->ops().size());
  }
  for (const simulated_op& fired : record.ops) {
    all[index_of(fired.who)].done[fired.op] = true;
    all[index_of(fired.who)].is_void[fired.op] = fired.is_void;
  }
  for (const simulated_dep& dep : record.deps) all[index_of(dep.who)].edges.push_back({dep.before, dep.after, false});
  for (std::size_t r = 0; r < world.size(); ++r) drop_idle_calls(*world[r], all[r]);
  return all;
}

/// Returns the number of messages that were sent and never received. A receive starts only when its message has
/// arrived, so this is the number of sends minus the number of receives.
std::int64_t orphans_of(const simulation_record& record) {
  std::int64_t open = 0;
  for (const simulated_op& fired : record.ops) {
    if (!is_communication(fired.kind) || fired.peer == fired.who) continue;
    open += is_outgoing(fired.kind) ? 1 : -1;
  }
  return open;
}

/// Properties of the ops of a world that the conversion needs.
struct traits {
  std::uint64_t signal_tag = 0;  ///< lowest tag above all tags of payload messages
  std::uint64_t last_tag = 0;
  bool has_signals = false, has_lists = false, has_empty = false, has_choice = false, has_void = false;
};

traits traits_of(std::span<const schedule_ptr> world, std::span<const played_rank> played) {
  traits all;
  std::uint64_t last_signal = 0;
  for (const schedule_ptr& program : world) {
    all.has_lists |= std::ranges::any_of(program->buffers(), &buffer::has_lists);
    std::vector<std::uint32_t> degrees(program->ops().size());
    for (op_id id = 0; id < degrees.size(); ++id)
      for (const op_id after : program->successors(id)) ++degrees[after];
    for (op_id id = 0; id < degrees.size(); ++id) {
      const op& one = program->ops()[id];
      const bool is_void = played[index_of(program->place().self)].is_void[id];
      all.has_choice |= one.need < degrees[id];
      all.has_void |= is_void;
      if (is_payload(one.kind)) {
        all.has_empty |= typical_bytes(*program, one) == 0 && !is_void;
        all.signal_tag = std::max<std::uint64_t>(all.signal_tag, std::uint64_t{one.tag} + 1);
      } else if (is_signal(one.kind) && has_edge(one, program->place().self)) {
        all.has_signals = true;
        last_signal = std::max<std::uint64_t>(last_signal, one.tag);
      }
    }
  }
  all.last_tag = all.signal_tag + last_signal;
  return all;
}

// --- translation -------------------------------------------------------------------------------------------------

/// The parameters of the translation of ops.
struct wording {
  double ns_per_byte = 0;
  std::uint64_t signal_bytes = 1;
  std::uint64_t signal_tag = 0;  ///< offset that is added to the tags of signals
};

/// Returns a failure if the time of a compute op is too long for a calc.
std::optional<failure> validate(std::span<const schedule_ptr> world, double ns_per_byte) {
  for (const schedule_ptr& program : world)
    for (op_id id = 0; id < program->ops().size(); ++id) {
      const auto bytes = static_cast<double>(typical_bytes(*program, program->ops()[id]));
      if (program->ops()[id].kind == op_kind::compute && bytes * ns_per_byte >= 1e18)
        return failure{status::argument,
                       "rank " + std::to_string(program->place().self) + ", op " + std::to_string(id) +
                           " takes longer than 10^18 ns, the limit of a calc: reduce --compute",
                       k_no_rank, id};
    }
  return std::nullopt;
}

/// Translates an op. `call_ns` is the time at which the rank calls.
goal_op translate(const schedule& program, const op& one, const wording& words, std::uint64_t call_ns) {
  const std::uint64_t bytes = typical_bytes(program, one);
  if (is_call(one, program.place().self)) return {.size = call_ns};
  if (one.kind == op_kind::compute)
    return {.size = static_cast<std::uint64_t>(std::round(static_cast<double>(bytes) * words.ns_per_byte))};
  if (!has_edge(one, program.place().self)) return {};
  const bool is_out = is_outgoing(one.kind);
  return {.size = is_signal(one.kind) ? words.signal_bytes : std::max<std::uint64_t>(bytes, 1),
          .peer = static_cast<std::uint32_t>(one.peer),
          .tag = static_cast<std::uint32_t>(is_signal(one.kind) ? one.tag + words.signal_tag : one.tag),
          .kind = is_out ? goal_kind::send : goal_kind::recv};
}

/// Translates a rank. An ordinary round begins with a wait of `start_ns`. In a partial round, the calc for the call
/// replaces that wait.
goal_rank translate(const schedule& program, const played_rank& me, const wording& words, std::uint64_t start_ns) {
  goal_rank out;
  const bool waits_first = start_ns > 0 && !program.is_partial();
  if (waits_first) out.ops.push_back({.size = start_ns});
  std::vector<bool> has_cause(program.ops().size());
  for (const goal_edge& edge : me.edges) has_cause[edge.after] = true;
  std::vector<std::uint32_t> number_of(program.ops().size());
  for (op_id id = 0; id < number_of.size(); ++id) {
    if (!me.done[id]) continue;
    number_of[id] = static_cast<std::uint32_t>(out.ops.size());
    out.ops.push_back(me.is_void[id] ? goal_op{} : translate(program, program.ops()[id], words, start_ns));
    if (waits_first && !has_cause[id]) out.edges.push_back({0, number_of[id], false});
  }
  for (const goal_edge& edge : me.edges)
    if (me.done[edge.before] && me.done[edge.after])
      out.edges.push_back({number_of[edge.before], number_of[edge.after], false});
  sort_edges(out);
  return out;
}

std::string number_text(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

/// Returns the part of goal_export::description that does not depend on the scenario.
std::string describe(const schedule& first, round_no round, const wording& words, const traits& all) {
  std::string text = "libsched: " + first.name() + ", " +
                     counted(static_cast<std::uint64_t>(first.place().size), "rank") + ", round " +
                     std::to_string(round) + "\n";
  text += "times in ns; computes take " + number_text(words.ns_per_byte) + " ns for each byte that they write";
  if (all.has_signals)
    text += "\nsignals are messages of " + counted(words.signal_bytes, "byte") + " with tags from " +
            std::to_string(words.signal_tag) + " on";
  if (all.has_empty) text += "\nmessages of 0 bytes are written as 1 byte";
  if (all.has_lists) text += "\nlists are of typical length";
  if (all.has_void) text += "\nops whose guard does not hold in this round are calcs of 0";
  return text;
}

std::string describe_unit_times(const schedule& first, const simulated_round& what, const traits& all) {
  if (!first.is_partial() && !all.has_choice) return "";
  const rank size = first.place().size;
  rank callers = 0;
  for (rank r = 0; what.starts && r < size; ++r) callers += what.starts(r) == 0 ? 1 : 0;
  std::string text = "\nresolved for one scenario: ";
  if (callers != 0)
    text += "rank " + std::to_string(what.initiator) +
            (callers == 1 ? " alone calls"
                          : " and the " + counted(static_cast<std::uint64_t>(callers) - 1, "candidate") +
                                " after it alone call") +
            ", every rank contributes; ";
  else if (first.is_partial())
    text += "every rank calls and contributes; ";
  return text +
         "a message takes one unit of time, other ops take no time;\n"
         "if an op needs fewer tokens than it has deps, the deps that completed first are required;\n"
         "ops that did not fire are left out";
}

std::string describe_simulated(const simulation& what, const traits& all) {
  const double us = static_cast<double>(what.noise.mean) / 1e6;
  std::string text = "\nresolved for one simulated scenario: skew " + std::string(name_of(what.skew.kind)) +
                     ", noise " + (what.noise.mean == 0 ? "none" : number_text(us) + " us") + ", seed " +
                     std::to_string(what.skew.seed);
  if (what.skew.kind != skew_kind::none)
    text += ";\na rank that begins late, or whose call triggers an op, begins with a calc of that time";
  if (what.noise.mean > 0) text += ";\nnoise affects only the order of arrivals and is not written";
  if (all.has_choice)
    text += ";\nif an op needs fewer tokens than it has deps, the deps that completed first are required";
  return text + ";\nops that did not fire are left out";
}

/// Returns the simulated round `instance` as a program. Rank r calls at `starts(r)`. The description ends with the text
/// of `describe_scenario(traits)`.
template <class Starts, class Describe>
result<goal_export> write_down(std::span<const schedule_ptr> world, round_no instance, const Starts& starts,
                               const simulation_record& record, wording words, const Describe& describe_scenario) {
  if (const std::int64_t open = orphans_of(record); open != 0)
    return failure{status::unmatched, "the round cannot be written as a GOAL file, because it sends " +
                                          counted(static_cast<std::uint64_t>(open), "message") +
                                          " without a receive: add the missing receives to the schedules"};
  const std::vector<played_rank> played = played_in(world, record);
  const traits all = traits_of(world, played);
  if (all.has_signals && all.last_tag >= k_goal_any)
    return failure{status::constraint,
                   "GOAL cannot express the signals of the schedule: messages already use the highest tag"};
  if (auto why = validate(world, words.ns_per_byte)) return *why;
  words.signal_tag = all.signal_tag;
  goal_export out;
  for (std::size_t r = 0; r < world.size(); ++r)
    out.program.ranks.push_back(translate(*world[r], played[r], words,
                                          static_cast<std::uint64_t>((starts(static_cast<rank>(r)) + 500) / 1000)));
  out.description = describe(*world.front(), instance, words, all) + describe_scenario(all);
  return out;
}

}  // namespace

result<goal_export> export_goal(std::span<const schedule_ptr> world, const goal_scenario& scenario) {
  const auto size = static_cast<rank>(world.size());
  if (scenario.initiator < 0 || scenario.initiator >= size)
    return failure{status::argument, "the initiator, rank " + std::to_string(scenario.initiator) +
                                         ", does not exist in a world of " + counted(world.size(), "rank")};
  if (!(scenario.ns_per_byte > 0)) return failure{status::argument, "ns_per_byte must be above 0"};
  const auto packed = packed_world::of(world);
  if (!packed) return packed.error();
  const simulated_round what = unit_time_round(packed->starts(), size, scenario.initiator);
  simulation_record record;
  const auto report = simulate_round(*packed, what, &record);
  if (!report) {
    failure why = report.error();
    if (why.code == status::state) why.code = status::unmatched;
    return why;
  }
  const auto starts = [&](rank r) { return what.starts ? what.starts(r) : 0; };
  return write_down(world, what.instance, starts, record, {.ns_per_byte = scenario.ns_per_byte},
                    [&](const traits& all) { return describe_unit_times(*world.front(), what, all); });
}

result<goal_export> export_goal(std::span<const schedule_ptr> world, const simulation& what,
                                const simulation_record& record) {
  const start_times starts(what.skew, static_cast<rank>(world.size()), what.instance);
  return write_down(world, what.instance, starts, record,
                    {.ns_per_byte = static_cast<double>(what.where.compute) / 1e6, .signal_bytes = k_signal_bytes},
                    [&](const traits& all) { return describe_simulated(what, all); });
}

}  // namespace lsched
