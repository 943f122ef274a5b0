#include "tests/verify_oracle/interleavings.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "libsched/schedule/draw.h"
#include "libsched/schedule/round.h"
#include "tests/verify_oracle/stage.h"
#include "tests/verify_oracle/term_table.h"

namespace lsched {
namespace {

constexpr round_no k_most_rounds = 12;  ///< maximum period of the guards, in rounds

/// The conditions under which all interleavings are executed.
struct scene {
  std::vector<bool> calls;      ///< whether each rank's application calls
  bool sends_wait = false;      ///< whether a send waits for its receive; if schedules hold payloads, the send also
                                ///< waits for the readers of its payload
  bool delays_entries = true;   ///< whether ranks enter the round in every order; otherwise they enter as early as
                                ///< possible
  bool is_rest = false;         ///< whether too few ranks call to start the partial round; a rank that wakes is then a
                                ///< fault
  bool is_full = false;         ///< whether the round waits for all ranks: a full round, or a round whose deadline has
                                ///< not passed
  bool passes_grace = true;     ///< whether the grace can pass
  std::vector<rank> present{};  ///< ranks that have not left, ascending; empty: all ranks
  round_no round = 1;           ///< round for which guards are evaluated
};

enum class phase : std::uint8_t { waiting, fired, passed_over, completed };  // passed_over: the op has fired, but has
                                                                             // no effect in this round
enum class occasion : std::uint8_t { begin, call, land, complete };

struct event {
  occasion what;
  stage_op part;  ///< op of the event; for `begin`, the first op of the rank
};

struct state {
  std::vector<phase> phases;            ///< phase of each op
  std::vector<std::uint32_t> tokens;    ///< number of tokens of each op
  std::vector<std::uint8_t> registers;  ///< for each op: 1 if the op is a signal receive whose signal has arrived
  std::vector<bool> landed;             ///< for each op: whether the op is a signal send whose signal has arrived
  std::vector<term_id> cells;
  std::vector<std::uint32_t> in_flight;   ///< number of ops in flight on each rank
  std::vector<bool> begun, exited, over;  ///< progress of each rank's round
  std::size_t entered = 0;

  state(const stage& on)
      : phases(on.op_count(), phase::waiting),
        tokens(on.op_count()),
        registers(on.op_count(), 0),
        landed(on.op_count(), false),
        cells(on.cell_count(), k_no_term),
        in_flight(static_cast<std::size_t>(on.size()), 0),
        begun(in_flight.size(), false),
        exited(in_flight.size(), false),
        over(in_flight.size(), false) {}
};

using state_hash = std::pair<std::uint64_t, std::uint64_t>;

/// Returns a hash of the fields that determine all other fields of the state.
state_hash hash_of(const state& now) {
  state_hash sum{1, 2};
  const auto add = [&](std::uint64_t number) {
    sum.first = mix(sum.first ^ number);
    sum.second = mix(sum.second + 3 * number);
  };
  for (std::size_t i = 0; i < now.phases.size(); ++i)
    add(static_cast<std::uint64_t>(now.phases[i]) << 2 | std::uint64_t{now.registers[i]} << 1 |
        (now.landed[i] ? 1u : 0u));
  for (std::size_t r = 0; r < now.begun.size(); ++r) add((now.begun[r] ? 1u : 0u) | (now.over[r] ? 2u : 0u));
  for (const term_id content : now.cells) add(content);
  return sum;
}

class interleaving_player {
 public:
  interleaving_player(const stage& on, const postcondition& promise, const interleaving_options& options, scene which,
                      term_table& terms)
      : on_(on),
        promise_(promise),
        options_(options),
        scene_(std::move(which)),
        terms_(terms),
        whose_(on.of(0).program->starts(), on.size()),
        events_(events_on(on)) {
    whose_.open_scenario(scene_.is_full);
  }

  /// Executes every interleaving. Returns false after a fault, or if there are too many states.
  bool run() {
    std::vector<state> open{state(on_)};
    while (!open.empty() && fault_.empty() && seen_.size() <= options_.most_states) {
      state now = std::move(open.back());
      open.pop_back();
      play_on(std::move(now), open);
    }
    return fault_.empty() && seen_.size() <= options_.most_states;
  }

  const std::string& fault() const { return fault_; }
  std::uint64_t states() const { return seen_.size(); }

 private:
  /// Executes events up to the next choice or to the end of the round. At a choice, adds the state after each
  /// alternative to `open`.
  void play_on(state now, std::vector<state>& open) {
    while (play_safe_events(now)) {
    }
    if (!fault_.empty()) return;
    std::vector<event> next;
    std::ranges::copy_if(events_, std::back_inserter(next), [&](event it) { return is_possible(now, it); });
    if (next.empty()) return check_end(now);
    if (!seen_.insert(hash_of(now)).second) return;
    for (const event it : next) {
      state then = now;
      happen(then, it);
      if (!fault_.empty()) return;
      open.push_back(std::move(then));
    }
  }

  /// Executes the safe events (is_safe()), in one pass over all events. Returns whether an event was executed.
  bool play_safe_events(state& now) {
    bool any = false;
    for (const event it : events_) {
      if (!is_possible(now, it) || !is_safe(now, it)) continue;
      happen(now, it);
      any = true;
      if (!fault_.empty()) return false;
    }
    return any;
  }

  // --- events that may happen ----------------------------------------------------------------------------------
  static std::vector<event> events_on(const stage& on) {
    std::vector<event> all;
    for (rank r = 0; r < on.size(); ++r) all.push_back({occasion::begin, on.of(r).first});
    for (stage_op it = 0; it < on.op_count(); ++it) {
      if (on.at(it).is_call) all.push_back({occasion::call, it});
      if (on.at(it).what->kind == op_kind::signal_send) all.push_back({occasion::land, it});
      all.push_back({occasion::complete, it});
    }
    return all;
  }

  bool is_possible(const state& now, event it) const {
    const rank owner = on_.at(it.part).owner;
    switch (it.what) {
      case occasion::begin: return !now.begun[at(owner)];
      case occasion::call:
        return is_made(owner, on_.at(it.part).what->tag) && now.registers[it.part] == 0 &&
               whose_.counts(owner, on_.at(it.part).what->tag, present());
      case occasion::land: return now.phases[it.part] != phase::waiting && !now.landed[it.part];
      case occasion::complete: return is_in_flight(now, it.part) && can_complete(now, it.part);
    }
    return false;
  }

  static bool is_in_flight(const state& now, stage_op it) {
    return now.phases[it] == phase::fired || now.phases[it] == phase::passed_over;
  }

  bool can_complete(const state& now, stage_op it) const {
    const stage_part& part = on_.at(it);
    if (now.phases[it] == phase::passed_over) return true;
    if (part.what->kind == op_kind::recv) return now.phases[part.partner] != phase::waiting;
    if (part.what->kind != op_kind::send || !scene_.sends_wait) return true;
    if (now.phases[part.partner] == phase::waiting) return false;
    const stage_part& receive = on_.at(part.partner);
    const auto has_read = [&](stage_op reader) { return now.phases[reader] == phase::completed; };
    return !on_.of(receive.owner).program->is_holding() || std::ranges::all_of(receive.readers, has_read);
  }

  /// Returns whether the event is independent of all other events that can still precede it. If so, the check executes
  /// the event at once and tries no other order.
  bool is_safe(const state& now, event it) const {
    if (!options_.is_reduced) return false;
    const stage_part& part = on_.at(it.part);
    const rank where = it.what == occasion::land ? on_.at(part.partner).owner : part.owner;
    const stage_rank& me = on_.of(where);
    const auto is_waiting = [&](stage_op other) { return now.phases[other] == phase::waiting; };
    if (!now.over[at(where)] && std::ranges::any_of(me.loose, is_waiting)) return false;
    const bool orders_matter = (on_.is_synchronising() || promise_.is_synchronising) && scene_.delays_entries;
    if (it.what == occasion::begin) return me.entry != k_no_stage_op || !orders_matter;
    if (it.what == occasion::call) return me.calls_before_capture || !is_full(me);
    if (it.what == occasion::land) return true;
    if (it.part == me.entry && orders_matter) return false;
    return std::ranges::none_of(part.rivals, is_waiting);
  }

  // --- effects of events -----------------------------------------------------------------------------------
  void happen(state& now, event it) {
    const rank where = on_.at(it.part).owner;
    switch (it.what) {
      case occasion::begin: return begin(now, where);
      case occasion::call: return hear(now, it.part);
      case occasion::land: now.landed[it.part] = true; return hear(now, on_.at(it.part).partner);
      case occasion::complete: return complete(now, it.part);
    }
  }

  void begin(state& now, rank r) {
    const stage_rank& me = on_.of(r);
    now.begun[at(r)] = true;
    if (me.entry == k_no_stage_op) ++now.entered;
    if (!me.captures)
      for (std::size_t b = 0; b < me.cells.size(); ++b)
        if (me.program->buffers()[b].role == buffer_role::input) fill(now, r, b, 0, me.program->buffers()[b].count);
    std::vector<stage_op> roots;
    for (const op_id root : me.program->roots()) roots.push_back(me.first + root);
    interpreter by{*this, now};
    round_player(by).begin(roots);
    end_if_over(now, r);
  }

  /// The interface between the firing rule (round.h) and a state. An op that has fired is in flight until an event
  /// completes it.
  struct interpreter {
    using number = stage_op;
    interleaving_player& in;
    state& now;

    const op& at(stage_op it) const { return *in.on_.at(it).what; }
    const stage_rank& rank_at(stage_op it) const { return in.on_.of(in.on_.at(it).owner); }
    std::uint32_t need(stage_op it) const { return at(it).need; }
    std::vector<stage_op> successors(stage_op it) const {
      std::vector<stage_op> all;
      for (const op_id after : rank_at(it).program->successors(in.on_.at(it).id))
        all.push_back(rank_at(it).first + after);
      return all;
    }
    bool is_exit(stage_op it) const { return in.on_.at(it).id == rank_at(it).program->exit(); }
    rank rank_of(stage_op it) const { return in.on_.at(it).owner; }

    std::uint32_t add_token(stage_op it, stage_op) const { return ++now.tokens[it]; }
    void mark(stage_op it) const { now.phases[it] = phase::completed; }
    void add_outstanding(stage_op it, int by) const {
      now.in_flight[in.at(rank_of(it))] += static_cast<std::uint32_t>(by);
    }
    void exited(stage_op it) const { now.exited[in.at(rank_of(it))] = true; }
    void enqueue(stage_op it) const {
      if (!now.over[in.at(rank_of(it))]) round_player(*this).fire(it);
    }

    const guard* guard_of(stage_op it, const op& what) const { return rank_at(it).program->guard_of(what); }
    round_no round() const { return in.scene_.round; }
    static std::uint64_t items_of(stage_op, const op&) { return 1; }
    const round_calls& calls() const { return in.whose_; }
    const std::vector<rank>* present() const { return in.present(); }
    round_no listen(stage_op it, const op&) const { return now.registers[it] * round(); }

    outcome launch(stage_op it, phase now_in) const {
      now.phases[it] = now_in;
      return outcome::pending;
    }
    outcome work(stage_op it) const {
      in.fire(now, it);
      return launch(it, phase::fired);
    }
    outcome pass_over(stage_op it, const op&) const { return launch(it, phase::passed_over); }
    outcome nop(stage_op it, const op&) const { return work(it); }
    outcome send(stage_op it, const op&) const { return work(it); }
    outcome receive(stage_op it, const op&) const { return work(it); }
    outcome compute(stage_op it, const op&) const { return work(it); }
    outcome capture(stage_op it, const op&) const { return work(it); }
    outcome signal(stage_op it, const op&) const { return work(it); }
    outcome take_signal(stage_op it, const op&) const { return work(it); }
  };

  void hear(state& now, stage_op receive) {
    const stage_part& part = on_.at(receive);
    now.registers[receive] = 1;
    const bool is_armed = now.begun[at(part.owner)] && !now.over[at(part.owner)] &&
                          now.phases[receive] == phase::waiting &&
                          round_player<interpreter>::has_fired(now.tokens[receive], part.what->need);
    interpreter by{*this, now};
    if (is_armed) round_player(by).hear(receive);
  }

  /// Fires an op: checks the op for conflicts, and copies the payload of a send.
  void fire(state& now, stage_op it) {
    const stage_part& part = on_.at(it);
    const op& what = *part.what;
    for (const stage_op other : part.conflicts)
      if (now.phases[other] == phase::fired) object(it, "uses memory that " + on_.words_for(other) + " is still using");
    for (const operand& source : operands_of(what, on_.of(part.owner).program->buffers()))
      for (std::uint64_t i = 0; !source.is_written && i < source.count; ++i)
        if (now.cells[on_.cell(part, source.at, i)] == k_no_term) return object(it, "reads what nothing has written");
    if (what.kind == op_kind::send)
      for (std::uint64_t i = 0; i < what.count; ++i) now.cells[part.transit + i] = now.cells[on_.cell(part, what.a, i)];
    const stage_rank& me = on_.of(part.owner);
    const stage_op call = scene_.is_full ? me.full_call : me.call;
    if (what.kind == op_kind::capture && is_full(me) && (call == k_no_stage_op || now.registers[call] == 0))
      object(it, "captures before its rank has called");
    if (what.kind == op_kind::capture && !is_promised_merge(part)) object(it, "merges by another kernel than promised");
    const bool tells = what.kind == op_kind::signal_send && std::ranges::find(scene_.calls, true) != scene_.calls.end();
    const bool is_out = what.kind == op_kind::send || (what.kind == op_kind::signal_send && !tells);
    if (scene_.is_rest && (is_out || what.kind == op_kind::capture)) object(it, "fires although too few ranks call");
    if (scene_.is_full && what.kind == op_kind::signal_send) object(it, "signals in a round that waits for all ranks");
  }

  bool is_promised_merge(const stage_part& part) const {
    return std::ranges::none_of(promise_.ranges, [&](const promised_range& it) {
      const bool is_in_it = it.among.empty() || std::ranges::binary_search(it.among, part.owner);
      const bool is_promised = it.how == part.what->what || it.merged == part.what->what;
      return it.what == promised_content::reduced && it.begin < it.end && is_in_it && !is_promised;
    });
  }

  void complete(state& now, stage_op it) {
    const stage_part& part = on_.at(it);
    const stage_rank& me = on_.of(part.owner);
    const bool computes = part.what->kind == op_kind::compute;
    if (now.phases[it] == phase::passed_over) {
    } else if (computes && row_of(part.what->what).symbol == symbolic_rule::sums)
      write_sums(now, part);
    else if (computes && is_nobodys_promise(part.what->what))
      make_anew(now, part);
    else
      for (std::uint64_t i = 0; part.what->c.exists() && i < part.what->count; ++i) write(now, part, i);
    if (it == me.entry) ++now.entered;
    interpreter by{*this, now};
    round_player(by).finish(it);
    end_if_over(now, part.owner);
  }

  void write(state& now, const stage_part& part, std::uint64_t i) {
    const op& what = *part.what;
    if (what.kind == op_kind::capture) return fill(now, part.owner, what.c.buffer(), what.c.offset() + i, 1);
    term_id& target = now.cells[on_.cell(part, what.c, i)];
    if (what.kind == op_kind::recv) {
      target = now.cells[on_.at(part.partner).transit + i];
      check_length(now, part, i, target);
    } else {
      const term_id lower = now.cells[on_.cell(part, what.a, i)];
      switch (row_of(what.what).symbol) {
        case symbolic_rule::layout:
          now.cells[on_.length(part, what.c, i)] = lower;
          target = k_no_term;
          break;
        case symbolic_rule::lengths: target = terms_.length_of(lower); break;
        case symbolic_rule::copy:
          target = lower;
          check_length(now, part, i, target);
          break;
        case symbolic_rule::quotient: {
          const schedule& mine = *on_.of(part.owner).program;
          target = terms_.quotient(lower, mine.parameters_of(what).front().integer());
          break;
        }
        case symbolic_rule::joined:
        case symbolic_rule::weighted: target = combine(now, part, lower, now.cells[on_.cell(part, what.b, i)]); break;
        default: break;
      }
    }
  }

  bool is_nobodys_promise(kernel what) const {
    return row_of(what).symbol == symbolic_rule::opaque || (options_.has_foreign_functions && is_function(what));
  }

  /// Executes a kernel that calls a function: fills the whole target with a term that depends on an operand. No
  /// postcondition accepts this term.
  void make_anew(state& now, const stage_part& part) {
    const stage_rank& me = on_.of(part.owner);
    const auto first_of = [&](region whole) { return me.cells[whole.buffer()]; };
    const buffer &from = me.program->buffers()[part.what->a.buffer()],
                 &into = me.program->buffers()[part.what->c.buffer()];
    const term_id known = from.count == 0 ? k_no_term : now.cells[first_of(part.what->a)];
    const term_id made = terms_.made_of(part.what->what, known);
    for (std::uint64_t i = 0; i < into.count; ++i) now.cells[first_of(part.what->c) + i] = made;
  }

  /// Checks that the new content of list i in a packed target has the length that the layout gives for the list.
  /// `now_in_it` is the new content.
  void check_length(const state& now, const stage_part& part, std::uint64_t i, term_id now_in_it) {
    const region target = part.what->c;
    if (!on_.of(part.owner).program->buffers()[target.buffer()].is_packed()) return;
    if (now.cells[on_.length(part, target, i)] != terms_.length_of(now_in_it))
      object(on_.of(part.owner).first + part.id, "writes another list than was measured");
  }

  term_id combine(const state& now, const stage_part& part, term_id lower, term_id higher) {
    if (row_of(part.what->what).symbol == symbolic_rule::joined)
      return terms_.join(part.what->what, part.what->type, lower, higher);
    std::array<term_id, k_dot_sums> sums;
    for (std::uint64_t i = 0; i < k_dot_sums; ++i) sums[i] = now.cells[on_.cell(part, part.what->s, i)];
    return terms_.adasum(lower, higher, sums);
  }

  void write_sums(state& now, const stage_part& part) {
    const op& what = *part.what;
    products all{};
    for (std::uint64_t i = 0; i < what.count; ++i)
      all = joined(all, terms_.products_of(now.cells[on_.cell(part, what.a, i)], now.cells[on_.cell(part, what.b, i)]));
    for (std::uint64_t i = 0; i < k_dot_sums; ++i) now.cells[on_.cell(part, what.c, i)] = terms_.sum_of(all, i);
  }

  /// Fills elements of an input with the terms of the application's data.
  void fill(state& now, rank r, std::size_t b, std::uint64_t begin, std::uint64_t count) {
    const stage_rank& me = on_.of(r);
    const auto before = me.program->buffers().first(b);
    const auto number = std::ranges::count_if(before, [](const buffer& it) { return it.role == buffer_role::input; });
    for (std::uint64_t i = begin; i < begin + count; ++i)
      now.cells[me.cells[b] + i] = terms_.leaf(r, static_cast<std::uint32_t>(number), i);
  }

  void end_if_over(state& now, rank r) {
    const stage_rank& me = on_.of(r);
    const auto count = static_cast<stage_op>(me.program->ops().size());
    if (!round_player<interpreter>::is_over(now.exited[at(r)], 0, now.in_flight[at(r)])) return;
    now.over[at(r)] = true;
    if ((me.program->is_synchronising() || promise_.is_synchronising) && now.entered < at(on_.size()))
      fault_ = "rank " + std::to_string(r) + "'s round ends when only " + std::to_string(now.entered) + " of " +
               std::to_string(on_.size()) + " ranks have entered";
    for (stage_op it = me.first; it < me.first + count; ++it)
      if (on_.at(it).is_data && now.phases[it] != phase::completed) object(it, "has not fired when the round ends");
  }

  // --- the end ---------------------------------------------------------------------------------------------
  void check_end(const state& now) {
    if (scene_.is_rest) return;
    for (rank r = 0; r < on_.size(); ++r)
      if (!now.over[at(r)]) return object_stuck(now, r);
    std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>, std::uint64_t> trees;
    for (const promised_range& wanted : promise_.ranges)
      for (std::uint64_t i = wanted.begin; i < wanted.end; ++i) {
        const term_id found = now.cells[output_cell(wanted) + i];
        std::string why = terms_.validate(wanted, i, found);
        const bool is_compared = promise_.is_same_everywhere && wanted.what == promised_content::reduced && why.empty();
        if (is_compared &&
            trees.try_emplace({wanted.output, wanted.begin, i}, terms_.tree(found)).first->second != terms_.tree(found))
          why = "another expression than other ranks do";
        if (why.empty()) continue;
        fault_ = "rank " + std::to_string(wanted.holder) + " holds " + why + " in element " + std::to_string(i);
        return;
      }
  }

  std::size_t output_cell(const promised_range& wanted) const {
    const stage_rank& me = on_.of(wanted.holder);
    std::uint32_t number = 0;
    for (std::size_t b = 0; b < me.cells.size(); ++b)
      if (me.program->buffers()[b].role == buffer_role::output && number++ == wanted.output) return me.cells[b];
    return 0;
  }

  void object_stuck(const state& now, rank r) {
    const stage_rank& me = on_.of(r);
    const auto count = static_cast<stage_op>(me.program->ops().size());
    for (stage_op it = me.first; it < me.first + count; ++it)
      if (is_in_flight(now, it)) return object(it, "waits forever");
    object(me.first + me.program->exit(), "never fires");
  }

  void object(stage_op it, const std::string& what) {
    if (fault_.empty()) fault_ = on_.words_for(it) + " " + what;
  }

  static std::size_t at(rank r) { return static_cast<std::size_t>(r); }
  const std::vector<rank>* present() const { return scene_.present.empty() ? nullptr : &scene_.present; }
  /// Returns whether the event of a call op happens: a call, the end of the grace, or a departure.
  bool is_made(rank owner, std::uint32_t tag) const {
    return tag == k_grace_tag ? scene_.passes_grace : tag >= k_left_tag || scene_.calls[at(owner)];
  }
  bool is_full(const stage_rank& me) const {
    return scene_.is_full || me.program->starts().policy == activation_policy::full;
  }

  const stage& on_;
  const postcondition& promise_;
  const interleaving_options& options_;
  const scene scene_;
  term_table& terms_;
  round_calls whose_;
  const std::vector<event> events_;  ///< all events of the stage
  std::set<state_hash> seen_;
  std::string fault_;
};

/// Adds the scenes of rounds that the grace does not start. In each pair, the second scene lacks a call.
void add_graces(rank size, const std::vector<bool>& enough, rank r, bool delays, std::vector<scene>& all) {
  const std::vector<bool> everybody(static_cast<std::size_t>(size), true);
  all.push_back({.calls = everybody, .sends_wait = true, .delays_entries = delays, .passes_grace = false});
  all.push_back({.calls = enough, .delays_entries = delays, .is_rest = true, .passes_grace = false});
  std::vector<rank> others;
  for (rank one = 0; one < size; ++one)
    if (one != r) others.push_back(one);
  std::vector<bool> without_r = everybody, without_next = everybody;
  without_r[static_cast<std::size_t>(r)] = false;
  without_next[static_cast<std::size_t>((r + 1) % size)] = false;
  scene left{
      .calls = without_r, .sends_wait = true, .delays_entries = delays, .passes_grace = false, .present = others};
  all.push_back(left);
  left.calls = without_next, left.is_rest = true;
  all.push_back(left);
  left.present = {r}, left.calls = everybody, left.is_rest = false;
  all.push_back(left);
  left.calls = without_r, left.is_rest = true, left.passes_grace = true;
  all.push_back(left);
}

/// Returns the scenes to execute. interleavings.h explains why these scenes suffice.
std::vector<scene> scenes_for(const stage& on, bool is_reduced) {
  const auto size = static_cast<std::size_t>(on.size());
  const activation& starts = on.of(0).program->starts();
  const bool anyone_starts = starts.is_woken();
  const auto arrivals = static_cast<std::size_t>(quota_of(starts, on.size()).arrivals);
  const std::vector<bool> everybody(size, true);
  std::vector<scene> all{{.calls = everybody}};
  if (starts.policy != activation_policy::none)
    all.push_back({.calls = std::vector<bool>(size, false), .delays_entries = !is_reduced, .is_rest = true});
  if (!anyone_starts || !is_reduced)
    all.push_back({.calls = everybody, .sends_wait = true, .delays_entries = !is_reduced});
  for (std::size_t r = 0; anyone_starts && r < size; ++r) {
    std::vector<bool> some(size, false);
    for (std::size_t i = 0; i < std::min(arrivals, size); ++i) some[(r + i) % size] = true;
    all.push_back({.calls = some, .sends_wait = true, .delays_entries = !is_reduced});
    if (has_grace(starts, on.size())) add_graces(on.size(), some, static_cast<rank>(r), !is_reduced, all);
    if (arrivals < 2) continue;
    some[r] = false;
    all.push_back({.calls = some, .delays_entries = !is_reduced, .is_rest = true});
  }
  if (starts.has_full_call()) all.push_back({.calls = everybody, .delays_entries = !is_reduced, .is_full = true});
  const std::size_t scenes = all.size();
  for (round_no round = 2; round <= on.period(); ++round)
    for (std::size_t i = 0; i < scenes; ++i) {
      all.push_back(all[i]);
      all.back().round = round;
    }
  return all;
}

}  // namespace

interleaving_verdict play(std::span<const schedule_ptr> world, const postcondition& promise,
                          const interleaving_options& options) {
  const stage on(world, options.in_place);
  if (!on.flaw().empty()) return {conclusion::fails, on.flaw(), 0};
  if (on.has_functions() && !options.has_foreign_functions)
    return {conclusion::undecided, "ops that call functions", 0};
  if (on.period() > k_most_rounds) return {conclusion::undecided, "guards of long periods", 0};
  interleaving_verdict verdict{.what = conclusion::holds};
  term_table terms(on.size());
  for (scene& which : scenes_for(on, options.is_reduced)) {
    interleaving_player one(on, promise, options, std::move(which), terms);
    const bool is_through = one.run();
    verdict.states += one.states();
    if (is_through) continue;
    const bool fails = !one.fault().empty();
    return {fails ? conclusion::fails : conclusion::undecided, fails ? one.fault() : "more states than allowed",
            verdict.states};
  }
  return verdict;
}

}  // namespace lsched
