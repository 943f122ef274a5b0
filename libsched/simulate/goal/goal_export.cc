// Schedules -> GOAL: plays one round through, token by token, and writes down what fired and why.
#include <algorithm>
#include <cmath>
#include <compare>
#include <numeric>
#include <optional>
#include <utility>

#include "libsched/schedule/draw.h"
#include "libsched/schedule/geometry.h"
#include "libsched/schedule/round.h"
#include "libsched/simulate/goal/goal_world.h"
#include "libsched/simulate/simulation.h"
#include "ops/counted.h"

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

/// What one rank did in a round.
struct played_rank {
  std::vector<bool> done;        ///< by op
  std::vector<bool> is_void;     ///< by op: done, and its guard did not hold
  std::vector<goal_edge> edges;  ///< tokens that a firing waited for, by op ids
};

/// One rank in the round that is played.
struct player : played_rank {
  std::vector<token_count> tokens;
  std::vector<bool> fired, arrived;  ///< by op
  std::vector<inlet> inlets;         ///< ascending
};

/// A round in which a message takes one unit of time and all else none.
class unit_time_round {
 public:
  unit_time_round(std::span<const schedule_ptr> world, rank initiator)
      : world_(world), initiator_(initiator), whose_(world.front()->starts(), static_cast<rank>(world.size())) {
    whose_.open_scenario(false);
  }

  /// Plays the round. Answers what is wrong with it, if anything.
  std::optional<failure> run() {
    players_.resize(world_.size());
    for (rank r = 0; at(r) < world_.size(); ++r) prepare(r);
    for (rank r = 0; at(r) < world_.size(); ++r) {
      interpreter me{*this, r};
      round_player(me).begin(program(r).roots());
    }
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

  std::vector<played_rank> played() && {
    return {std::make_move_iterator(players_.begin()), std::make_move_iterator(players_.end())};
  }

 private:
  struct place {
    rank who;
    op_id id;
  };

  /// How the round player sees a rank.
  struct interpreter {
    using number = op_id;
    unit_time_round& in;
    rank self;

    player& me() const { return in.players_[static_cast<std::size_t>(self)]; }
    const op& at(op_id id) const { return in.program(self).ops()[id]; }
    std::uint32_t need(op_id id) const { return at(id).need; }
    std::span<const op_id> successors(op_id id) const { return in.program(self).successors(id); }
    bool is_exit(op_id id) const { return id == in.program(self).exit(); }
    rank rank_of(op_id) const { return self; }

    std::uint32_t add_token(op_id id, op_id from) const {
      const std::uint32_t tokens = me().tokens[id].add(k_round);
      if (tokens <= need(id)) me().edges.push_back({from, id, false});
      return tokens;
    }
    void mark(op_id id) const { me().done[id] = true; }
    void add_outstanding(op_id, int) const {}
    void exited(op_id) const {}
    void enqueue(op_id id) const { in.ready_.push_back({self, id}); }

    const guard* guard_of(op_id, const op& what) const { return in.program(self).guard_of(what); }
    static round_no round() { return k_round; }
    /// Lists that are typically empty are.
    std::uint64_t items_of(op_id, const op& what) const { return typical_bytes(in.program(self), what); }
    const round_calls& calls() const { return in.whose_; }
    static const std::vector<rank>* present() { return nullptr; }
    round_no listen(op_id id, const op& what) const {
      const bool is_heard = is_call(what, self) ? in.calls(self) : me().arrived[id];
      return is_heard ? k_round : 0;
    }

    static outcome nop(op_id, const op&) { return outcome::done; }
    static outcome compute(op_id, const op&) { return outcome::done; }
    static outcome capture(op_id, const op&) { return outcome::done; }
    static outcome take_signal(op_id, const op&) { return outcome::done; }
    outcome pass_over(op_id id, const op&) const {
      me().is_void[id] = true;
      return outcome::done;
    }
    outcome send(op_id, const op& what) const {
      in.post(self, what);
      return outcome::done;
    }
    outcome signal(op_id id, const op& what) const { return send(id, what); }
    outcome receive(op_id id, const op&) const { return me().arrived[id] ? outcome::done : outcome::pending; }
  };

  const schedule& program(rank r) const { return *world_[at(r)]; }

  void prepare(rank r) {
    player& me = players_[at(r)];
    const auto ops = program(r).ops();
    me.tokens.resize(ops.size());
    me.fired.resize(ops.size());
    me.arrived.resize(ops.size());
    me.done.resize(ops.size());
    me.is_void.resize(ops.size());
    for (op_id id = 0; id < ops.size(); ++id)
      if ((ops[id].kind == op_kind::recv || ops[id].kind == op_kind::signal_recv) && ops[id].peer != r)
        me.inlets.push_back({ops[id].peer, ops[id].tag, is_signal(ops[id].kind), id});
    std::sort(me.inlets.begin(), me.inlets.end());
  }

  void fire(rank r, op_id id) {
    players_[at(r)].fired[id] = true;
    interpreter me{*this, r};
    round_player(me).fire(id);
  }

  /// The initiator, and as many ranks after it as it takes.
  bool calls(rank r) const {
    const activation& starts = program(r).starts();
    const auto size = static_cast<rank>(players_.size());
    return !starts.is_woken() || ring_before(r, initiator_, size) < quota_of(starts, size).arrivals;
  }

  // A message that nobody receives is noticed as its sender's fault at the end.
  void post(rank from, const op& what) {
    const std::vector<inlet>& inlets = players_[at(what.peer)].inlets;
    const inlet wanted{from, what.tag, is_signal(what.kind), 0};
    const auto found = std::lower_bound(inlets.begin(), inlets.end(), wanted);
    if (found != inlets.end() && inlet{found->from, found->tag, found->is_signal, 0} == wanted)
      under_way_.push_back({what.peer, found->id});
    else if (!stray_)
      stray_ = failure{status::unmatched,
                       "rank " + std::to_string(from) + " sends rank " + std::to_string(what.peer) +
                           " a message with tag " + std::to_string(what.tag) + " that it does not receive",
                       from};
  }

  void arrive(rank r, op_id id) {
    player& me = players_[at(r)];
    me.arrived[id] = true;
    if (!me.fired[id]) return;
    interpreter by{*this, r};
    if (is_signal(program(r).ops()[id].kind))
      round_player(by).hear(id);
    else
      round_player(by).finish(id);
  }

  std::optional<failure> fault_of(rank r) const {
    if (stray_) return stray_;
    const player& me = players_[at(r)];
    const auto ops = program(r).ops();
    for (op_id id = 0; id < ops.size(); ++id) {
      const bool is_stuck = is_payload(ops[id].kind) && me.fired[id] && !me.done[id];
      const bool is_left_over = me.arrived[id] && !me.done[id];
      const bool is_missing = id == program(r).exit() && !me.done[id];
      if (is_stuck || is_left_over || is_missing)
        return failure{status::unmatched,
                       "the round does not end: on rank " + std::to_string(r) + " op " + std::to_string(id) + " (" +
                           std::string(name_of(ops[id].kind)) +
                           (is_left_over ? ") does not take its message" : ") does not complete"),
                       r, id};
    }
    return std::nullopt;
  }

  std::span<const schedule_ptr> world_;
  rank initiator_;
  round_calls whose_;
  std::vector<player> players_;
  std::vector<place> ready_;
  std::vector<place> under_way_;
  std::optional<failure> stray_;
};

// --- translation ---------------------------------------------------------------------------------------------

std::optional<failure> validate(std::span<const schedule_ptr> world) {
  if (world.empty()) return failure{status::argument, "a world has at least one rank"};
  for (std::size_t r = 0; r < world.size(); ++r)
    if (world[r] == nullptr ||
        world[r]->place() != lsched::world{static_cast<rank>(r), static_cast<rank>(world.size())})
      return failure{status::argument, "schedule " + std::to_string(r) + " is not that of rank " + std::to_string(r) +
                                           " of " + std::to_string(world.size())};
  return std::nullopt;
}

std::optional<failure> validate(std::span<const schedule_ptr> world, const goal_scenario& around) {
  if (auto why = validate(world)) return why;
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
  round_no round = k_round;  ///< that is written
  bool has_signals = false, has_lists = false, has_empty = false, has_choice = false, has_void = false;
};

traits traits_of(std::span<const schedule_ptr> world, std::span<const played_rank> played, round_no round) {
  traits all{.round = round};
  std::uint64_t last_signal = 0;
  for (const schedule_ptr& program : world) {
    all.has_lists |= std::ranges::any_of(program->buffers(), &buffer::has_lists);
    std::vector<std::uint32_t> degrees(program->ops().size());
    for (op_id id = 0; id < degrees.size(); ++id)
      for (const op_id after : program->successors(id)) ++degrees[after];
    for (op_id id = 0; id < degrees.size(); ++id) {
      const op& it = program->ops()[id];
      all.has_choice |= it.need < degrees[id];
      const bool is_void = played[at(program->place().self)].is_void[id];
      all.has_void |= is_void;
      if (is_payload(it.kind)) {
        all.has_empty |= typical_bytes(*program, it) == 0 && !is_void;
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

std::optional<failure> validate(const traits& all) {
  if (!all.has_signals || all.last_tag < k_goal_any) return std::nullopt;
  return failure{status::constraint, "tags of messages leave no room for tags of signals"};
}

std::uint64_t time_of(std::uint64_t bytes, double ns_per_byte) {
  return static_cast<std::uint64_t>(std::round(static_cast<double>(bytes) * ns_per_byte));
}

/// A calc is a number of nanoseconds, which has to fit.
std::optional<failure> validate(std::span<const schedule_ptr> world, double ns_per_byte) {
  for (const schedule_ptr& program : world)
    for (op_id id = 0; id < program->ops().size(); ++id) {
      const op& it = program->ops()[id];
      const auto bytes = static_cast<double>(typical_bytes(*program, it));
      if (it.kind == op_kind::compute && bytes * ns_per_byte >= 1e18)
        return failure{status::argument,
                       "rank " + std::to_string(program->place().self) + ", op " + std::to_string(id) +
                           ": takes longer than 10^18 ns, more than a calc is written with",
                       k_no_rank, id};
    }
  return std::nullopt;
}

/// How ops are written.
struct wording {
  double ns_per_byte = 0;
  std::uint64_t signal_bytes = 1;
  std::uint64_t signal_tag = 0;  ///< added to the tags of signals
};

/// When a rank begins, ns: before anything at all, and before its call.
struct waits {
  std::uint64_t before_all = 0, of_calls = 0;
};

goal_op translate(const schedule& program, const op& it, const wording& words, const waits& start) {
  const std::uint64_t bytes = typical_bytes(program, it);
  const bool is_message = is_communication(it.kind) && it.peer != program.place().self;
  if (it.kind == op_kind::signal_recv && !is_message) return {.size = start.of_calls};
  if (!is_message) return {.size = it.kind == op_kind::compute ? time_of(bytes, words.ns_per_byte) : 0};
  const bool is_out = it.kind == op_kind::send || it.kind == op_kind::signal_send;
  return {.size = is_signal(it.kind) ? words.signal_bytes : std::max<std::uint64_t>(bytes, 1),
          .peer = static_cast<std::uint32_t>(it.peer),
          .tag = static_cast<std::uint32_t>(is_signal(it.kind) ? it.tag + words.signal_tag : it.tag),
          .kind = is_out ? goal_kind::send : goal_kind::recv};
}

goal_rank translate(const schedule& program, const played_rank& me, const wording& words, const waits& start = {}) {
  goal_rank out;
  if (start.before_all > 0) out.ops.push_back({.size = start.before_all});
  std::vector<bool> has_cause(program.ops().size());
  for (const goal_edge& it : me.edges) has_cause[it.after] = true;
  std::vector<std::uint32_t> number_of(program.ops().size());
  for (op_id id = 0; id < number_of.size(); ++id) {
    if (!me.done[id]) continue;
    number_of[id] = static_cast<std::uint32_t>(out.ops.size());
    out.ops.push_back(me.is_void[id] ? goal_op{} : translate(program, program.ops()[id], words, start));
    if (start.before_all > 0 && !has_cause[id]) out.edges.push_back({0, number_of[id], false});
  }
  for (const goal_edge& it : me.edges)
    if (me.done[it.before] && me.done[it.after])
      out.edges.push_back({number_of[it.before], number_of[it.after], false});
  sort_edges(out);
  return out;
}

std::string number_text(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

/// What holds whatever the scenario.
std::string describe(std::span<const schedule_ptr> world, const wording& words, const traits& all) {
  std::string text = "libsched: " + world.front()->name() + ", " + counted(world.size(), "rank") + ", round " +
                     std::to_string(all.round) + "\n";
  text += "times in ns; computes take " + number_text(words.ns_per_byte) + " ns for each byte they write";
  if (all.has_signals)
    text += "\nsignals are messages of " + counted(words.signal_bytes, "byte") + " with tags from " +
            std::to_string(words.signal_tag) + " on";
  if (all.has_empty) text += "\nmessages of 0 bytes are written as 1 byte";
  if (all.has_lists) text += "\nlists are of typical length";
  if (all.has_void) text += "\nops whose guard does not hold in this round are calcs of 0";
  return text;
}

std::string describe_unit_times(const schedule& first, rank initiator, const traits& all) {
  if (!first.is_partial() && !all.has_choice) return "";
  std::string text = "\nresolved for one scenario: ";
  if (first.starts().policy == activation_policy::full) text += "every rank calls and contributes; ";
  const rank callers = quota_of(first.starts(), first.place().size).arrivals;
  if (first.starts().is_woken())
    text += "rank " + std::to_string(initiator) +
            (callers == 1 ? "" : " and the " + counted(callers - 1, "rank") + " after it") +
            (callers == 1 ? " alone calls" : " alone call") + ", every rank contributes; ";
  return text +
         "a message takes one unit of time, all else none;\n"
         "where an op needs fewer tokens than it has deps, those that came first are required;\n"
         "ops that did not fire are left out";
}

std::string describe_simulated(const simulation& what, const traits& all) {
  std::string text = "\nresolved for one simulated scenario: skew " + std::string(name_of(what.skew.kind)) +
                     ", noise " + std::string(name_of(what.noise.kind)) + ", seed " + std::to_string(what.skew.seed);
  if (what.skew.kind != skew_kind::none)
    text += ";\na rank that begins late, or whose call set something off, has a calc of that time first";
  if (!what.noise.is_silent()) text += ";\nnoise and jitter decided who came first and are not written otherwise";
  if (all.has_choice) text += ";\nwhere an op needs fewer tokens than it has deps, those that came first are required";
  return text + ";\nops that did not fire are left out";
}

// --- a simulated round ---------------------------------------------------------------------------------------

std::vector<played_rank> played_in(std::span<const schedule_ptr> world, const simulation_record& record) {
  std::vector<played_rank> all(world.size());
  for (std::size_t r = 0; r < world.size(); ++r) {
    all[r].done.resize(world[r]->ops().size());
    all[r].is_void.resize(world[r]->ops().size());
  }
  for (const simulated_op& it : record.ops) {
    all[at(it.who)].done[it.op] = true;
    all[at(it.who)].is_void[it.op] = it.is_void;
  }
  for (const simulated_dep& it : record.deps) all[at(it.who)].edges.push_back({it.before, it.after, false});
  return all;
}

/// A call counts if something fired because of it; others would only keep the CPU busy until they come.
void drop_idle_calls(const schedule& program, played_rank& me) {
  for (op_id id = 0; id < me.done.size(); ++id) {
    const op& it = program.ops()[id];
    if (it.kind != op_kind::signal_recv || it.peer != program.place().self) continue;
    me.done[id] = me.done[id] && std::ranges::any_of(me.edges, [&](const goal_edge& dep) {
                    return dep.before == id && me.done[dep.after];
                  });
  }
}

/// Messages that were sent and never taken; a receive fires only with its message.
std::int64_t left_over(const simulation_record& record) {
  std::int64_t open = 0;
  for (const simulated_op& it : record.ops) {
    if (!is_communication(it.kind) || it.peer == it.who) continue;
    open += it.kind == op_kind::send || it.kind == op_kind::signal_send ? 1 : -1;
  }
  return open;
}

std::uint64_t start_ns(const start_times& starts, rank r) {
  return static_cast<std::uint64_t>((starts(r) + 500) / 1000);
}

/// Ordinary rounds begin with a wait; in partial ones the call is the wait.
goal_rank translate(const schedule& program, played_rank me, const wording& words, std::uint64_t start) {
  if (!program.is_partial()) return translate(program, std::as_const(me), words, {.before_all = start});
  drop_idle_calls(program, me);
  return translate(program, std::as_const(me), words, {.of_calls = start});
}

}  // namespace

result<goal_export> export_goal(std::span<const schedule_ptr> world, const goal_scenario& around) {
  if (auto why = validate(world, around)) return *why;
  if (auto why = validate(world, around.ns_per_byte)) return *why;
  const rank initiator = initiator_of(world, around);
  unit_time_round round(world, initiator);
  if (auto why = round.run()) return *why;
  const std::vector<played_rank> played = std::move(round).played();
  const traits all = traits_of(world, played, k_round);
  if (auto why = validate(all)) return *why;
  const wording words{.ns_per_byte = around.ns_per_byte, .signal_tag = all.signal_tag};
  goal_export out;
  for (rank r = 0; at(r) < world.size(); ++r)
    out.program.ranks.push_back(translate(*world[at(r)], played[at(r)], words));
  out.remark = describe(world, words, all) + describe_unit_times(*world.front(), initiator, all);
  return out;
}

result<goal_export> export_goal(std::span<const schedule_ptr> world, const simulation& what,
                                const simulation_record& record) {
  if (auto why = validate(world)) return *why;
  const auto played = played_in(world, record);
  const traits all = traits_of(world, played, what.instance);
  if (auto why = validate(all)) return *why;
  if (auto why = validate(world, static_cast<double>(what.where.compute) / 1e6)) return *why;
  if (const std::int64_t open = left_over(record); open != 0)
    return failure{status::unmatched, "messages sent and never taken: " + std::to_string(open)};
  const wording words{.ns_per_byte = static_cast<double>(what.where.compute) / 1e6,
                      .signal_bytes = k_signal_bytes,
                      .signal_tag = all.signal_tag};
  const start_times starts(what.skew, static_cast<rank>(world.size()), what.instance);
  goal_export out;
  for (rank r = 0; at(r) < world.size(); ++r)
    out.program.ranks.push_back(translate(*world[at(r)], played[at(r)], words, start_ns(starts, r)));
  out.remark = describe(world, words, all) + describe_simulated(what, all);
  return out;
}

}  // namespace lsched
