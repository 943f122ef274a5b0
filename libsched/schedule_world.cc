#include "libsched/schedule_world.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string>
#include <tuple>
#include <unordered_map>

#include "libsched/calendar.h"
#include "libsched/round.h"
#include "libsched/transfer.h"
#include "libsched/work.h"

namespace lsched {
namespace {

constexpr round_no k_round = 1;

enum class event_kind : std::uint8_t { start, signal, data, request, grant, moved };

/// Something that happens at a rank.
template <class Time>
struct arrival_event {
  Time when{};
  rank who = 0, peer = 0;  ///< where it happens; who caused it
  op_id op = k_no_op;      ///< the op that it is for, here
  op_id other = k_no_op;   ///< and at the peer
  std::uint32_t tag = 0;
  event_kind kind = event_kind::start;

  picoseconds instant() const { return lsched::instant_of(when); }
  bool is_before(const arrival_event& it) const {
    return std::tie(peer, kind, tag) < std::tie(it.peer, it.kind, it.tag);
  }
};

struct op_state {
  token_count tokens;
  op_id announced_by = k_no_op;  ///< rendezvous: the send that waits for this receive
  bool has_fired = false;
  bool has_arrived = false;  ///< of a receive its message, of a call or a signal that its register satisfies the round
  bool is_done = false;
};

template <class Time>
struct rank_state {
  /// A rendezvous whose bytes leave; the send ends with that.
  struct departure {
    Time end{};
    op_id send = k_no_op;
  };

  Time cpu = at_instant<Time>(0);
  Time sends_from = at_instant<Time>(0);
  Time received = at_instant<Time>(k_long_ago);
  std::vector<op_state> ops;
  std::unordered_map<std::uint64_t, op_id> receiver_of{};  ///< by peer, tag and kind
  std::vector<op_id> ready{};
  std::vector<departure> leaving{};  ///< in the order of time; few
  std::uint64_t outstanding = 0;     ///< ops that have fired and not completed
  bool has_exited = false;
  bool has_ended = false;
};

std::uint64_t key_of(rank peer, std::uint32_t tag, bool is_signal) {
  return static_cast<std::uint64_t>(peer) << 33 | std::uint64_t{tag} << 1 | (is_signal ? 1 : 0);
}

std::uint64_t bytes_of(const schedule& program, const op& what) {
  return is_signal(what.kind) ? k_signal_bytes : bytes_of_work(program, what);
}

/// A node of a hash map has a link, and every allocation a size.
template <class Time>
std::size_t memory_of(const rank_state<Time>& it) {
  using node = std::pair<void*, std::pair<const std::uint64_t, op_id>>;
  return it.ops.capacity() * sizeof(op_state) + it.ready.capacity() * sizeof(op_id) +
         it.leaving.capacity() * sizeof(it.leaving[0]) + it.receiver_of.bucket_count() * sizeof(void*) +
         it.receiver_of.size() * (sizeof(node) + sizeof(std::size_t));
}

std::size_t memory_of(const schedule& it) {
  std::size_t edges = 0;
  for (op_id id = 0; id < it.ops().size(); ++id) edges += it.successors(id).size();
  return sizeof(schedule) + it.name().size() + it.ops().size() * (sizeof(op) + sizeof(std::uint32_t)) +
         (edges + it.roots().size()) * sizeof(op_id) + it.buffers().size() * sizeof(buffer) +
         it.guards().size() * sizeof(guard);
}

template <class Time>
class world_engine {
 public:
  /// `alike`: the program is one rank's, who stands for all.
  world_engine(std::span<const schedule_ptr> programs, const simulation& what, simulation_record* record,
               picoseconds width, const alike_world* alike = nullptr)
      : programs_(programs),
        alike_(alike),
        what_(what),
        record_(record),
        is_foreign_(what.where.rules == semantics::loggopsim),
        starts_(what.skew, static_cast<rank>(programs.size()), what.instance),
        calendar_(static_cast<rank>(programs.size()), width),
        ranks_(programs.size()) {}

  result<simulation_report> run() {
    report_.finish.assign(ranks_.size(), 0);
    open_calls();
    for (rank r = 0; at(r) < ranks_.size(); ++r) prepare(r);
    while (!calendar_.is_empty() && fault_.empty())
      for (const event& it : calendar_.take(calendar_.first_window())) handle(it);
    return finish();
  }

 private:
  using event = arrival_event<Time>;
  using state = rank_state<Time>;

  static std::size_t at(rank r) { return static_cast<std::size_t>(r); }
  const schedule& program(rank r) const { return *programs_[at(r)]; }
  const op& op_of(rank r, op_id id) const { return program(r).ops()[id]; }

  /// As all ranks do in that round; but a scenario says who is drawn where it is one rank.
  void open_calls() {
    const auto size = static_cast<rank>(ranks_.size());
    std::vector<rank> all(ranks_.size());
    std::iota(all.begin(), all.end(), 0);
    whose_ = round_calls(program(0).starts(), size);
    whose_.open(what_.instance, all);
    if (program(0).starts().policy == activation_policy::majority) whose_.appoint(what_.initiator);
  }

  /// A partial round is open before the rank calls; any other begins with its start.
  void prepare(rank r) {
    state& me = ranks_[at(r)];
    const auto ops = program(r).ops();
    me.ops.resize(ops.size());
    for (op_id id = 0; id < ops.size(); ++id)
      if (ops[id].kind == op_kind::recv || (ops[id].kind == op_kind::signal_recv && !is_call(ops[id], r)))
        me.receiver_of[key_of(ops[id].peer, ops[id].tag, ops[id].kind == op_kind::signal_recv)] = id;
    calendar_.push({.when = at_instant<Time>(starts_(r)), .who = r, .peer = r});
    if (program(r).is_partial()) begin(r);
  }

  void begin(rank r) {
    interpreter me{*this, r};
    round_player(me).begin(program(r).roots());
    work(r);
  }

  // --- events --------------------------------------------------------------------------------------------------

  void handle(const event& it) {
    end_sends(it.who, it.instant());
    switch (it.kind) {
      case event_kind::start: return start(it.who, it.when);
      case event_kind::signal:
      case event_kind::data: return arrive(it);
      case event_kind::request: return note_request(it);
      case event_kind::grant: return move(it);
      case event_kind::moved: return;  // end_sends has done it
    }
  }

  void start(rank r, const Time& time) {
    state& me = ranks_[at(r)];
    if (!program(r).is_partial()) {
      me.cpu = later(me.cpu, time);
      ++report_.active;
      return begin(r);
    }
    if (me.has_ended) return;
    for (op_id id = 0; id < me.ops.size(); ++id) {
      if (!is_call(op_of(r, id), r) || !whose_.counts(r, op_of(r, id).tag, nullptr)) continue;
      me.cpu = later(me.cpu, time);
      me.ops[id].has_arrived = true;
      if (me.ops[id].has_fired) me.ready.push_back(id);
    }
    work(r);
  }

  void arrive(const event& it) {
    state& me = ranks_[at(it.who)];
    const message_cost cost = cost_at(it.who, it.op);
    Time in = it.when;
    if (is_foreign_ && it.kind == event_kind::data) {
      receive_blocking(me.cpu, me.received, it.when, cost,
                       [&](const Time& begin) { return noise(it.who, it.op, begin, cost.receiver.time); });
    } else {
      in = take_in(me.received, it.when, cost);
      if (instant_of(in) > it.instant()) ++report_.nic_waits;
    }
    me.ops[it.op].has_arrived = true;
    go_on_with(it, in);
  }

  void note_request(const event& it) {
    ranks_[at(it.who)].ops[it.op].announced_by = it.other;
    go_on_with(it, it.when);
  }

  /// If the receive is all that its message, or the announcement of it, has been waiting for.
  void go_on_with(const event& it, const Time& time) {
    state& me = ranks_[at(it.who)];
    if (!me.ops[it.op].has_fired) return;
    me.cpu = later(me.cpu, time);
    me.ready.push_back(it.op);
    work(it.who);
  }

  /// At the sender of a rendezvous: its NIC does the rest.
  void move(const event& it) {
    state& me = ranks_[at(it.who)];
    const Time arrives = move_data(me.sends_from, it.when, cost_at(it.who, it.op));
    me.leaving.push_back({me.sends_from, it.op});
    calendar_.push({.when = me.sends_from, .who = it.who, .peer = it.who, .kind = event_kind::moved});
    calendar_.push({.when = arrives,
                    .who = it.peer,
                    .peer = it.who,
                    .op = it.other,
                    .other = it.op,
                    .tag = it.tag,
                    .kind = event_kind::data});
  }

  /// Those whose bytes have left by now. Asked before anything else happens at the rank: what ends inside a window that
  /// is being handled is then never late.
  void end_sends(rank r, picoseconds now) {
    state& me = ranks_[at(r)];
    while (!me.leaving.empty() && instant_of(me.leaving.front().end) <= now) {
      const auto [end, send] = me.leaving.front();
      me.leaving.erase(me.leaving.begin());
      interpreter by{*this, r};
      round_player(by).finish(send);
      end_if_over(r, end);
      if (me.ready.empty()) continue;
      me.cpu = later(me.cpu, end);
      work(r);
    }
  }

  // --- ops -----------------------------------------------------------------------------------------------------

  /// How the round player sees a rank: ops are carried out at once, by its CPU, first come, first served.
  struct interpreter {
    using number = op_id;
    world_engine& in;
    rank self;

    state& me() const { return in.ranks_[static_cast<std::size_t>(self)]; }
    const op& at(op_id id) const { return in.op_of(self, id); }
    std::uint32_t need(op_id id) const { return at(id).need; }
    std::span<const op_id> successors(op_id id) const { return in.program(self).successors(id); }
    bool is_exit(op_id id) const { return id == in.program(self).exit(); }
    rank rank_of(op_id) const { return self; }

    std::uint32_t add_token(op_id id, op_id from) {
      const std::uint32_t tokens = me().ops[id].tokens.add(k_round);
      if (in.is_recorded(self) && tokens <= need(id)) in.record_->deps.push_back({self, from, id});
      return tokens;
    }
    void mark(op_id id) { me().ops[id].is_done = true; }
    void add_outstanding(op_id, int by) { me().outstanding += static_cast<std::uint64_t>(by); }
    void exited(op_id) { me().has_exited = true; }
    void enqueue(op_id id) { me().ready.push_back(id); }

    const guard* guard_of(op_id, const op& what) const { return in.program(self).guard_of(what); }
    round_no round() const { return in.what_.instance; }
    /// Lists that are typically empty are.
    std::uint64_t items_of(op_id, const op& what) const { return typical_bytes(in.program(self), what); }
    const round_calls& calls() const { return in.whose_; }
    static const std::vector<rank>* present() { return nullptr; }
    round_no listen(op_id id, const op&) const { return me().ops[id].has_arrived ? round() : 0; }

    template <class Work>
    outcome carry_out(op_id id, const op& what, const Work& work) {
      const picoseconds begin = instant_of(me().cpu);
      const bool is_over = work();
      if (in.is_recorded(self)) in.record(self, id, what.kind, begin);
      return is_over ? outcome::done : outcome::pending;
    }
    outcome nop(op_id id, const op& what) {
      return carry_out(id, what, [] { return true; });
    }
    outcome pass_over(op_id id, const op&) {
      if (in.is_recorded(self)) in.record(self, id, op_kind::nop, instant_of(me().cpu), true);
      return outcome::done;
    }
    outcome send(op_id id, const op& what) {
      return carry_out(id, what, [&] { return in.send(self, id, what); });
    }
    outcome signal(op_id id, const op& what) { return send(id, what); }
    outcome receive(op_id id, const op& what) {
      if (me().ops[id].has_arrived)
        return carry_out(id, what,
                         [&] { return in.is_foreign_ || in.charge_cpu(self, id, in.cost_at(self, id).receiver); });
      if (me().ops[id].announced_by != k_no_op) in.ask_for(self, id);
      return outcome::pending;
    }
    outcome take_signal(op_id id, const op& what) {
      return carry_out(id, what,
                       [&] { return is_call(what, self) || in.charge_cpu(self, id, in.cost_at(self, id).receiver); });
    }
    outcome compute(op_id id, const op& what) {
      return carry_out(id, what, [&] { return in.charge_cpu(self, id, in.cost_at(self, id).combination); });
    }
    outcome capture(op_id id, const op& what) {
      return carry_out(id, what, [&] {
        if (in.starts_(self) <= instant_of(me().cpu)) ++in.report_.active;
        return true;
      });
    }
  };

  /// Carries out what is ready, first come, first served.
  void work(rank r) {
    state& me = ranks_[at(r)];
    for (std::size_t i = 0; i < me.ready.size(); ++i) {
      const op_id id = me.ready[i];
      if (me.ops[id].is_done) continue;
      go_on(r, id);
      end_if_over(r, me.cpu);
    }
    me.ready.clear();
  }

  /// An op that has its tokens, or that has fired and what it waited for has come.
  void go_on(rank r, op_id id) {
    op_state& it = ranks_[at(r)].ops[id];
    interpreter me{*this, r};
    round_player player(me);
    if (!std::exchange(it.has_fired, true)) return player.fire(id);
    if (op_of(r, id).kind == op_kind::signal_recv) return player.hear(id);
    if (me.receive(id, op_of(r, id)) == outcome::done) player.finish(id);
  }

  void end_if_over(rank r, const Time& time) {
    state& me = ranks_[at(r)];
    if (me.has_ended || !round_player<interpreter>::is_over(me.has_exited, me.outstanding)) return;
    me.has_ended = true;
    end_at(r, time);
  }

  bool is_recorded(rank r) const { return record_ != nullptr && r < record_->ranks; }

  void record(rank r, op_id id, op_kind kind, picoseconds begin, bool is_void = false) {
    const op& what = op_of(r, id);
    const rank peer = is_communication(what.kind) ? what.peer : k_no_rank;
    record_->ops.push_back({r, id, kind, peer, what.tag, begin, instant_of(ranks_[at(r)].cpu), is_void});
  }

  /// A receive whose message has been announced: its sender may move it.
  void ask_for(rank r, op_id id) {
    const op& what = op_of(r, id);
    const message_cost cost = cost_at(r, id);
    const Time granted = grant(ranks_[at(r)].cpu, cost, drag_of(what_.noise, r, cost.overhead.time));
    calendar_.push({.when = granted,
                    .who = peer_of(what),
                    .peer = r,
                    .op = ranks_[at(r)].ops[id].announced_by,
                    .other = id,
                    .tag = what.tag,
                    .kind = event_kind::grant});
  }

  /// Answers whether the buffer is free at once.
  bool send(rank r, op_id id, const op& what) {
    state& me = ranks_[at(r)];
    const bool is_signal = what.kind == op_kind::signal_send;
    const op_id receiver = receiver_of(r, id, what);
    if (receiver == k_no_op) {
      fault_ = "rank " + std::to_string(what.peer) + " does not receive tag " + std::to_string(what.tag) + " of rank " +
               std::to_string(r);
      return true;
    }
    const message_cost cost = cost_at(r, id);
    const disturbance met = disturbance_of(what_.noise, r, what_.instance, id, instant_of(me.cpu), cost);
    Time arrives;
    if (!cost.is_eager)
      arrives = announce(me.cpu, cost, met);
    else if (is_foreign_ && !is_signal)
      arrives = send_blocking(me.cpu, me.sends_from, cost, met);
    else
      arrives = send_eagerly(me.cpu, me.sends_from, cost, met);
    if (is_signal) {
      ++report_.signals;
    } else {
      ++report_.messages;
      add_bytes(report_.bytes, bytes_at(r, id));
    }
    const event_kind kind = is_signal ? event_kind::signal : cost.is_eager ? event_kind::data : event_kind::request;
    calendar_.push({arrives, peer_of(what), r, receiver, id, what.tag, kind});
    return cost.is_eager;
  }

  /// True, as what takes time of the CPU only is complete then.
  bool charge_cpu(rank r, op_id id, const charge& cost) {
    Time& cpu = ranks_[at(r)].cpu;
    cpu = cpu + cost + lost(noise(r, id, cpu, cost.time));
    return true;
  }

  picoseconds noise(rank r, op_id id, const Time& begin, picoseconds cost) const {
    return delay_of(what_.noise, r, what_.instance, id, instant_of(begin), cost);
  }

  /// Whom its message is for; the one who stands for all gets what it sends.
  rank peer_of(const op& what) const { return alike_ != nullptr ? 0 : what.peer; }

  /// The op there that receives it; k_no_op: there is none.
  op_id receiver_of(rank r, op_id id, const op& what) const {
    if (alike_ != nullptr) return alike_->receiver_of[id];
    const auto& all = ranks_[at(what.peer)].receiver_of;
    const auto found = all.find(key_of(r, what.tag, is_signal(what.kind)));
    return found == all.end() ? k_no_op : found->second;
  }

  std::uint64_t bytes_at(rank r, op_id id) const {
    const op& what = op_of(r, id);
    return alike_ != nullptr && !is_signal(what.kind) ? alike_->work[id] : bytes_of(program(r), what);
  }

  message_cost cost_at(rank r, op_id id) const {
    const op& what = op_of(r, id);
    const std::size_t level = is_communication(what.kind) ? what_.where.level_of(r, peer_of(what)) : 0;
    message_cost cost = cost_of(what_.where, level, bytes_at(r, id));
    if (is_foreign_ || is_signal(what.kind)) cost.is_eager = true;
    return cost;
  }

  // --- the end -------------------------------------------------------------------------------------------------

  void end_at(rank r, const Time& time) {
    report_.finish[at(r)] = instant_of(time);
    last_ = later(last_, time);
  }

  result<simulation_report> finish() {
    if (!fault_.empty()) return failure{status::unmatched, fault_};
    for (rank r = 0; at(r) < ranks_.size(); ++r)
      if (!ranks_[at(r)].has_ended) return stuck(r);
    report_.engine = "window";
    report_.memory = calendar_.memory() + ranks_.capacity() * sizeof(state);
    for (const state& it : ranks_) report_.memory += memory_of(it);
    for (const schedule_ptr& it : programs_) report_.memory += memory_of(*it);
    report_.memory += report_.finish.capacity() * sizeof(picoseconds);
    if constexpr (std::is_same_v<Time, traced_time>) report_.critical_path = last_.parts;
    return checked(std::move(report_));
  }

  failure stuck(rank r) const {
    for (op_id id = 0; id < ranks_[at(r)].ops.size(); ++id) {
      const op_state& it = ranks_[at(r)].ops[id];
      if (!it.has_fired || it.is_done || op_of(r, id).kind != op_kind::recv) continue;
      return {status::state,
              "rank " + std::to_string(r) + " waits forever for a message of rank " + std::to_string(op_of(r, id).peer),
              r, id};
    }
    return {status::state, "rank " + std::to_string(r) + " never reaches its exit", r};
  }

  std::span<const schedule_ptr> programs_;
  const alike_world* alike_;
  const simulation& what_;
  simulation_record* record_;
  const bool is_foreign_;
  const start_times starts_;
  calendar<event> calendar_;
  std::vector<state> ranks_;
  round_calls whose_;
  std::string fault_;
  Time last_ = at_instant<Time>(0);
  simulation_report report_;
};

/// What one rank has sent and got, for all of them.
void multiply(simulation_report& report, rank size) {
  const auto ranks = static_cast<std::uint64_t>(size);
  report.messages *= ranks;
  report.signals *= ranks;
  report.nic_waits *= ranks;
  report.active = size;
  if (__builtin_mul_overflow(report.bytes, ranks, &report.bytes)) report.bytes = k_too_many_bytes;
  report.finish.assign(static_cast<std::size_t>(size), report.finish.front());
}

std::uint64_t longest_message(std::span<const schedule_ptr> ranks) {
  std::uint64_t most = 0;
  for (const schedule_ptr& program : ranks)
    for (const op& it : program->ops())
      if (it.kind == op_kind::send) most = std::max(most, bytes_of(*program, it));
  return most;
}

failure no_lookahead() {
  return {status::argument, "a message takes no time: L + o (L alone beyond S) must be positive"};
}

}  // namespace

result<simulation_report> simulate_schedules(std::span<const schedule_ptr> ranks, const simulation& what,
                                             simulation_record* record, bool trace) {
  if (ranks.empty()) return failure{status::argument, "a world has at least one rank"};
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (ranks[r]->place() != world{static_cast<rank>(r), static_cast<rank>(ranks.size())})
      return failure{status::argument, "schedule " + std::to_string(r) + " is not that rank's of this world"};
  if (what.where.shares_nics()) return failure{status::unsupported, "NICs that ranks share are for programs"};
  const picoseconds width = lookahead(what.where, longest_message(ranks), what.noise.pace);
  if (width <= 0) return no_lookahead();
  const start_times starts(what.skew, static_cast<rank>(ranks.size()), what.instance);
  if (auto why = objection_to(starts, static_cast<rank>(ranks.size()), k_forever)) return std::move(*why);

  const auto begin = std::chrono::steady_clock::now();
  auto report = trace ? world_engine<traced_time>(ranks, what, record, width).run()
                      : world_engine<picoseconds>(ranks, what, record, width).run();
  if (report) report->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

result<simulation_report> simulate_alike(const alike_world& ranks, const simulation& what, bool trace) {
  if (what.where.levels.size() != 1 || what.skew.kind != skew_kind::none || !what.noise.is_silent())
    return failure{status::unsupported, "one rank stands for all only where nothing makes a difference between them"};
  const std::span one(&ranks.one, 1);
  const picoseconds width = lookahead(what.where, longest_message(one), what.noise.pace);
  if (width <= 0) return no_lookahead();

  const auto begin = std::chrono::steady_clock::now();
  auto report = trace ? world_engine<traced_time>(one, what, nullptr, width, &ranks).run()
                      : world_engine<picoseconds>(one, what, nullptr, width, &ranks).run();
  if (!report) return report;
  report->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  multiply(*report, ranks.size);
  return checked(std::move(*report));
}

}  // namespace lsched
