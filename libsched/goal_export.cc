// Schedules -> GOAL: plays one round through, token by token, and writes down what fired and why.
#include <algorithm>
#include <cmath>
#include <compare>
#include <numeric>
#include <optional>

#include "libsched/draw.h"
#include "libsched/firing.h"
#include "libsched/goal_world.h"

namespace lsched {
namespace {

constexpr round_no k_round = 1;

std::size_t at(rank r) { return static_cast<std::size_t>(r); }

/// What a message is addressed to.
struct inlet {
  rank from = 0;
  std::uint32_t tag = 0;
  bool is_signal = false;
  op_id id = k_no_op;
  friend auto operator<=>(const inlet&, const inlet&) = default;
};

/// One rank in the round that is played.
struct player {
  std::vector<token_count> tokens;
  std::vector<bool> fired, arrived, done;  ///< by op
  std::vector<goal_edge> edges;            ///< tokens that a firing waited for, by op ids
  std::vector<inlet> inlets;               ///< ascending
};

class round_player {
 public:
  round_player(std::span<const schedule_ptr> world, rank initiator) : world_(world), initiator_(initiator) {}

  /// Plays the round. Answers what is wrong with it, if anything.
  std::optional<failure> run() {
    players_.resize(world_.size());
    for (rank r = 0; at(r) < world_.size(); ++r) prepare(r);
    for (rank r = 0; at(r) < world_.size(); ++r)
      for (const op_id root : program(r).roots()) ready_.push_back({r, root});
    while (!ready_.empty() || !under_way_.empty()) {
      for (std::size_t i = 0; i < ready_.size(); ++i) fire(ready_[i].who, ready_[i].id);  // grows meanwhile
      ready_.clear();
      std::vector<place> landing;
      landing.swap(under_way_);
      for (const place& it : landing) arrive(it.who, it.id);
    }
    for (rank r = 0; at(r) < world_.size(); ++r)
      if (auto why = fault_of(r)) return why;
    return std::nullopt;
  }

  const player& of(rank r) const { return players_[at(r)]; }

 private:
  struct place {
    rank who;
    op_id id;
  };

  const schedule& program(rank r) const { return *world_[at(r)]; }

  void prepare(rank r) {
    player& me = players_[at(r)];
    const auto ops = program(r).ops();
    me.tokens.resize(ops.size());
    me.fired.resize(ops.size());
    me.arrived.resize(ops.size());
    me.done.resize(ops.size());
    for (op_id id = 0; id < ops.size(); ++id)
      if ((ops[id].kind == op_kind::recv || ops[id].kind == op_kind::signal_recv) && ops[id].peer != r)
        me.inlets.push_back({ops[id].peer, ops[id].tag, is_signal(ops[id].kind), id});
    std::sort(me.inlets.begin(), me.inlets.end());
  }

  void fire(rank r, op_id id) {
    player& me = players_[at(r)];
    const op& what = program(r).ops()[id];
    me.fired[id] = true;
    if (what.kind == op_kind::send || what.kind == op_kind::signal_send) post(r, what);
    const bool is_call = what.kind == op_kind::signal_recv && what.peer == r;
    const bool waits = what.kind == op_kind::recv || (what.kind == op_kind::signal_recv && !is_call);
    if (is_call ? calls(r) : !waits || me.arrived[id]) complete(r, id);
  }

  bool calls(rank r) const {
    const activation_policy policy = program(r).starts().policy;
    return r == initiator_ || (policy != activation_policy::solo && policy != activation_policy::majority);
  }

  // A message that nobody receives is noticed as its sender's fault at the end.
  void post(rank from, const op& what) {
    const std::vector<inlet>& inlets = players_[at(what.peer)].inlets;
    const inlet wanted{from, what.tag, is_signal(what.kind), 0};
    const auto found = std::lower_bound(inlets.begin(), inlets.end(), wanted);
    if (found != inlets.end() && inlet{found->from, found->tag, found->is_signal, 0} == wanted)
      under_way_.push_back({what.peer, found->id});
    else if (!stray_)
      stray_ = failure{status::unmatched, "rank " + std::to_string(from) + " sends rank " + std::to_string(what.peer) +
                                              " a message with tag " + std::to_string(what.tag) +
                                              " that it does not receive", from};
  }

  void arrive(rank r, op_id id) {
    players_[at(r)].arrived[id] = true;
    if (players_[at(r)].fired[id]) complete(r, id);
  }

  void complete(rank r, op_id id) {
    player& me = players_[at(r)];
    me.done[id] = true;
    for (const op_id after : program(r).successors(id)) {
      const std::uint32_t need = program(r).ops()[after].need;
      if (deliver(me.tokens[after], need, k_round)) ready_.push_back({r, after});
      if (me.tokens[after].tokens <= need) me.edges.push_back({id, after, false});
    }
  }

  std::optional<failure> fault_of(rank r) const {
    if (stray_) return stray_;
    const player& me = of(r);
    const auto ops = program(r).ops();
    for (op_id id = 0; id < ops.size(); ++id) {
      const bool is_stuck = is_payload(ops[id].kind) && me.fired[id] && !me.done[id];
      const bool is_left_over = me.arrived[id] && !me.done[id];
      const bool is_missing = id == program(r).exit() && !me.done[id];
      if (is_stuck || is_left_over || is_missing)
        return failure{status::unmatched, "the round does not end: on rank " + std::to_string(r) + " op " +
                                              std::to_string(id) + " (" + std::string(name_of(ops[id].kind)) +
                                              (is_left_over ? ") does not take its message" : ") does not complete"),
                       r, id};
    }
    return std::nullopt;
  }

  std::span<const schedule_ptr> world_;
  rank initiator_;
  std::vector<player> players_;
  std::vector<place> ready_;
  std::vector<place> under_way_;
  std::optional<failure> stray_;
};

// --- translation ---------------------------------------------------------------------------------------------

std::optional<failure> objection(std::span<const schedule_ptr> world, const goal_scenario& around) {
  if (world.empty()) return failure{status::argument, "a world has at least one rank"};
  for (std::size_t r = 0; r < world.size(); ++r)
    if (world[r] == nullptr ||
        world[r]->place() != lsched::world{static_cast<rank>(r), static_cast<rank>(world.size())})
      return failure{status::argument, "schedule " + std::to_string(r) + " is not that of rank " + std::to_string(r) +
                                           " of " + std::to_string(world.size())};
  if (around.initiator < 0 || at(around.initiator) >= world.size())
    return failure{status::argument, "the initiator is no rank of this world"};
  if (!(around.ns_per_byte > 0)) return failure{status::argument, "ns_per_byte is not above 0"};
  return std::nullopt;
}

rank initiator_of(std::span<const schedule_ptr> world, const goal_scenario& around) {
  const activation& starts = world.front()->starts();
  if (starts.policy != activation_policy::majority) return around.initiator;
  std::vector<rank> all(world.size());
  std::iota(all.begin(), all.end(), 0);
  return draw(starts.seed, k_round, all);
}

/// What the ops of a world have in common that GOAL needs to know.
struct traits {
  std::uint64_t signal_tag = 0;  ///< the first above all payload's
  std::uint64_t last_tag = 0;
  bool has_signals = false, has_late = false, has_empty = false, has_choice = false;
};

traits traits_of(std::span<const schedule_ptr> world) {
  traits all;
  std::uint64_t last_signal = 0;
  for (const schedule_ptr& program : world) {
    std::vector<std::uint32_t> degrees(program->ops().size());
    for (op_id id = 0; id < degrees.size(); ++id)
      for (const op_id after : program->successors(id)) ++degrees[after];
    for (op_id id = 0; id < degrees.size(); ++id) {
      const op& it = program->ops()[id];
      all.has_choice |= it.need < degrees[id];
      all.has_late |= it.count.is_late();
      if (is_payload(it.kind)) {
        all.has_empty |= max_count(*program, it) == 0;
        all.signal_tag = std::max<std::uint64_t>(all.signal_tag, std::uint64_t{it.tag} + 1);
      } else if (is_signal(it.kind) && it.peer != program->place().self) {
        all.has_signals = true;
        last_signal = std::max<std::uint64_t>(last_signal, it.tag);
      }
    }
  }
  all.last_tag = all.signal_tag + last_signal;
  return all;
}

std::uint64_t time_of(std::uint64_t bytes, double ns_per_byte) {
  const double ns = std::round(static_cast<double>(bytes) * ns_per_byte);
  return ns < 1e18 ? static_cast<std::uint64_t>(ns) : 1'000'000'000'000'000'000;
}

goal_op translate(const schedule& program, const op& it, const goal_scenario& around, std::uint64_t signal_tag) {
  const std::uint64_t bytes = max_count(program, it) * size_of(it.type);
  const bool is_message = is_communication(it.kind) && it.peer != program.place().self;
  if (!is_message) return {.size = it.kind == op_kind::compute ? time_of(bytes, around.ns_per_byte) : 0};
  const bool is_out = it.kind == op_kind::send || it.kind == op_kind::signal_send;
  return {.size = is_signal(it.kind) ? 1 : std::max<std::uint64_t>(bytes, 1),
          .peer = static_cast<std::uint32_t>(it.peer),
          .tag = static_cast<std::uint32_t>(is_signal(it.kind) ? it.tag + signal_tag : it.tag),
          .kind = is_out ? goal_kind::send : goal_kind::recv};
}

goal_rank translate(const schedule& program, const player& me, const goal_scenario& around, std::uint64_t signal_tag) {
  goal_rank out;
  std::vector<std::uint32_t> number_of(program.ops().size());
  for (op_id id = 0; id < number_of.size(); ++id) {
    if (!me.done[id]) continue;
    number_of[id] = static_cast<std::uint32_t>(out.ops.size());
    out.ops.push_back(translate(program, program.ops()[id], around, signal_tag));
  }
  for (const goal_edge& it : me.edges)
    if (me.done[it.after]) out.edges.push_back({number_of[it.before], number_of[it.after], false});
  sort_edges(out);
  return out;
}

std::string number_text(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string describe(std::span<const schedule_ptr> world, const goal_scenario& around, rank initiator,
                     const traits& all) {
  const schedule& first = *world.front();
  std::string text = "libsched: " + first.name() + ", " + std::to_string(world.size()) + " ranks, one round\n";
  text += "times in ns; computes take " + number_text(around.ns_per_byte) + " ns for each byte they write";
  if (all.has_signals)
    text += "\nsignals are messages of 1 byte with tags from " + std::to_string(all.signal_tag) + " on";
  if (all.has_empty) text += "\nmessages of 0 bytes are written as 1 byte";
  if (all.has_late) text += "\nlate extents are at their bounds";
  if (!first.is_partial() && !all.has_choice) return text;
  text += "\nresolved for one scenario: ";
  if (first.starts().policy == activation_policy::full) text += "every rank calls and contributes; ";
  if (first.starts().policy == activation_policy::solo || first.starts().policy == activation_policy::majority)
    text += "rank " + std::to_string(initiator) + " alone calls, every rank contributes; ";
  return text + "a message takes one unit of time, all else none;\n"
                "where an op needs fewer tokens than it has deps, those that came first are required;\n"
                "ops that did not fire are left out";
}

}  // namespace

result<goal_export> export_goal(std::span<const schedule_ptr> world, const goal_scenario& around) {
  if (auto why = objection(world, around)) return *why;
  const traits all = traits_of(world);
  if (all.has_signals && all.last_tag >= k_goal_any)
    return failure{status::constraint, "tags of messages leave no room for tags of signals"};
  const rank initiator = initiator_of(world, around);
  round_player round(world, initiator);
  if (auto why = round.run()) return *why;
  goal_export out;
  for (rank r = 0; at(r) < world.size(); ++r)
    out.program.ranks.push_back(translate(*world[at(r)], round.of(r), around, all.signal_tag));
  out.remark = describe(world, around, initiator, all);
  return out;
}

}  // namespace lsched
