#include "libsched/schedule_world.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <unordered_map>

#include "libsched/calendar.h"
#include "libsched/firing.h"
#include "libsched/transfer.h"

namespace lsched {
namespace {

constexpr round_no k_round = 1;
constexpr picoseconds k_long_ago = std::numeric_limits<picoseconds>::min() / 4;

struct arrival_event {
  picoseconds time = 0;
  rank who = 0, peer = 0;
  op_id receive = k_no_op;  ///< k_no_op: the rank's start or call
  std::uint32_t tag = 0;

  picoseconds instant() const { return time; }
  bool is_before(const arrival_event& other) const { return peer != other.peer ? peer < other.peer : tag < other.tag; }
};

struct op_state {
  token_count tokens;
  bool is_armed = false;    ///< a receive that has its tokens
  bool has_arrived = false;
  bool is_done = false;
};

struct rank_state {
  picoseconds cpu = 0;
  picoseconds sends_from = 0;
  picoseconds received = k_long_ago;
  std::vector<op_state> ops;
  std::unordered_map<std::uint64_t, op_id> receiver_of{};  ///< by peer, tag and kind
  std::vector<op_id> ready{};
  bool has_ended = false;
};

std::uint64_t key_of(rank peer, std::uint32_t tag, bool is_signal) {
  return static_cast<std::uint64_t>(peer) << 33 | std::uint64_t{tag} << 1 | (is_signal ? 1 : 0);
}

class world_engine {
 public:
  world_engine(std::span<const schedule_ptr> programs, const simulation& what, simulation_record* record,
               picoseconds width)
      : programs_(programs),
        what_(what),
        record_(record),
        starts_(what.skew, static_cast<rank>(programs.size()), what.instance),
        calendar_(static_cast<rank>(programs.size()), width),
        ranks_(programs.size()) {}

  result<simulation_report> run() {
    report_.finish.assign(ranks_.size(), 0);
    for (rank r = 0; at(r) < ranks_.size(); ++r) prepare(r);
    while (!calendar_.is_empty() && fault_.empty())
      for (const arrival_event& it : calendar_.take(calendar_.first_window())) handle(it);
    return finish();
  }

 private:
  static std::size_t at(rank r) { return static_cast<std::size_t>(r); }
  const schedule& program(rank r) const { return *programs_[at(r)]; }
  const op& op_of(rank r, op_id id) const { return program(r).ops()[id]; }
  static bool is_call(const op& what, rank r) { return what.kind == op_kind::signal_recv && what.peer == r; }

  /// A partial round is open before the rank calls; any other begins with its start.
  void prepare(rank r) {
    rank_state& me = ranks_[at(r)];
    const auto ops = program(r).ops();
    me.ops.resize(ops.size());
    for (op_id id = 0; id < ops.size(); ++id)
      if (ops[id].kind == op_kind::recv || (ops[id].kind == op_kind::signal_recv && !is_call(ops[id], r)))
        me.receiver_of[key_of(ops[id].peer, ops[id].tag, ops[id].kind == op_kind::signal_recv)] = id;
    calendar_.push({starts_(r), r, r, k_no_op, 0});
    if (program(r).is_partial()) begin(r);
  }

  void begin(rank r) {
    for (const op_id root : program(r).roots()) arm(r, root);
    work(r);
  }

  void handle(const arrival_event& it) {
    rank_state& me = ranks_[at(it.who)];
    if (it.receive == k_no_op) return start(it.who, it.time);
    const op& what = op_of(it.who, it.receive);
    const message_cost cost = cost_at(it.who, it.peer, bytes_of(it.who, what));
    const picoseconds in = std::max(it.time, me.received + cost.gap.time);
    if (in > it.time) ++report_.nic_waits;
    me.received = in;
    op_state& state = me.ops[it.receive];
    state.has_arrived = true;
    if (!state.is_armed) return;
    me.cpu = std::max(me.cpu, in);
    me.ready.push_back(it.receive);
    work(it.who);
  }

  void start(rank r, picoseconds time) {
    rank_state& me = ranks_[at(r)];
    if (!program(r).is_partial()) {
      me.cpu = std::max(me.cpu, time);
      ++report_.active;
      return begin(r);
    }
    const activation_policy policy = program(r).starts().policy;
    if (me.has_ended || (policy == activation_policy::majority && r != what_.initiator)) return;
    me.cpu = std::max(me.cpu, time);
    for (op_id id = 0; id < me.ops.size(); ++id) {
      if (!is_call(op_of(r, id), r)) continue;
      me.ops[id].has_arrived = true;
      if (me.ops[id].is_armed) me.ready.push_back(id);
    }
    work(r);
  }

  /// The op has its tokens.
  void arm(rank r, op_id id) {
    rank_state& me = ranks_[at(r)];
    const op_kind kind = op_of(r, id).kind;
    me.ops[id].is_armed = true;
    const bool waits = kind == op_kind::recv || kind == op_kind::signal_recv;
    if (!waits || me.ops[id].has_arrived) me.ready.push_back(id);
  }

  /// Carries out what is ready, first come first served.
  void work(rank r) {
    rank_state& me = ranks_[at(r)];
    for (std::size_t i = 0; i < me.ready.size(); ++i) {
      const op_id id = me.ready[i];
      if (me.ops[id].is_done) continue;
      me.ops[id].is_done = true;
      const picoseconds begin = me.cpu;
      carry_out(r, id, op_of(r, id));
      if (record_ != nullptr) record_->ops.push_back({r, id, begin, me.cpu});
      for (const op_id after : program(r).successors(id))
        if (deliver(me.ops[after].tokens, op_of(r, after).need, k_round)) arm(r, after);
    }
    me.ready.clear();
  }

  void carry_out(rank r, op_id id, const op& what) {
    rank_state& me = ranks_[at(r)];
    switch (what.kind) {
      case op_kind::send:
      case op_kind::signal_send: send(r, id, what); break;
      case op_kind::recv: charge_cpu(r, id, cost_at(r, what.peer, bytes_of(r, what)).receiver.time); break;
      case op_kind::signal_recv:
        if (!is_call(what, r)) charge_cpu(r, id, cost_at(r, what.peer, k_signal_bytes).receiver.time);
        break;
      case op_kind::compute: charge_cpu(r, id, time_of(bytes_of(r, what), what_.where.compute)); break;
      case op_kind::capture:
        if (starts_(r) <= me.cpu) ++report_.active;
        break;
      case op_kind::nop: break;
    }
    if (id != program(r).exit()) return;
    me.has_ended = true;
    report_.finish[at(r)] = me.cpu;
  }

  void send(rank r, op_id id, const op& what) {
    rank_state& me = ranks_[at(r)];
    const bool is_signal = what.kind == op_kind::signal_send;
    const message_cost cost = cost_at(r, what.peer, bytes_of(r, what));
    const picoseconds extra = noise_of(what_.noise, r, what_.instance, id, me.cpu, cost.sender.time);
    const picoseconds late = jitter_of(what_.noise, r, what_.instance, id);
    const picoseconds begin = me.cpu;
    const picoseconds ready = send_eagerly(me.cpu, me.sends_from, cost, extra, late);
    if (is_signal) {
      ++report_.signals;
    } else {
      ++report_.messages;
      report_.bytes += bytes_of(r, what);
    }
    const auto& receivers = ranks_[at(what.peer)].receiver_of;
    const auto found = receivers.find(key_of(r, what.tag, is_signal));
    if (found == receivers.end()) {
      fault_ = "rank " + std::to_string(what.peer) + " does not receive tag " + std::to_string(what.tag) + " of rank " +
               std::to_string(r);
      return;
    }
    calendar_.push({ready, what.peer, r, found->second, what.tag});
    if (record_ != nullptr) record_->messages.push_back({r, what.peer, id, found->second, begin, ready, is_signal});
  }

  void charge_cpu(rank r, op_id id, picoseconds time) {
    picoseconds& cpu = ranks_[at(r)].cpu;
    cpu += time + noise_of(what_.noise, r, what_.instance, id, cpu, time);
  }

  std::uint64_t bytes_of(rank r, const op& what) const {
    return is_signal(what.kind) ? k_signal_bytes : max_count(program(r), what) * size_of(what.type);
  }

  message_cost cost_at(rank x, rank y, std::uint64_t bytes) const {
    return cost_of(what_.where, what_.where.level_of(x, y), bytes);
  }

  result<simulation_report> finish() {
    if (!fault_.empty()) return failure{status::unmatched, fault_};
    for (rank r = 0; at(r) < ranks_.size(); ++r)
      if (!ranks_[at(r)].has_ended) return stuck(r);
    report_.engine = "window";
    report_.memory = calendar_.memory() + ranks_.capacity() * sizeof(rank_state);
    for (const rank_state& it : ranks_) report_.memory += it.ops.capacity() * sizeof(op_state);
    return std::move(report_);
  }

  failure stuck(rank r) const {
    for (op_id id = 0; id < ranks_[at(r)].ops.size(); ++id) {
      const op_state& it = ranks_[at(r)].ops[id];
      if (!it.is_armed || it.is_done || op_of(r, id).kind != op_kind::recv) continue;
      return {status::state, "rank " + std::to_string(r) + " waits forever for a message of rank " +
                                 std::to_string(op_of(r, id).peer), r, id};
    }
    return {status::state, "rank " + std::to_string(r) + " never reaches its exit", r};
  }

  std::span<const schedule_ptr> programs_;
  const simulation& what_;
  simulation_record* record_;
  const start_times starts_;
  calendar<arrival_event> calendar_;
  std::vector<rank_state> ranks_;
  std::string fault_;
  simulation_report report_;
};

}  // namespace

result<simulation_report> simulate_schedules(std::span<const schedule_ptr> ranks, const simulation& what,
                                             simulation_record* record) {
  if (ranks.empty()) return failure{status::argument, "a world has at least one rank"};
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (ranks[r]->place() != world{static_cast<rank>(r), static_cast<rank>(ranks.size())})
      return failure{status::argument, "schedule " + std::to_string(r) + " is not that rank's of this world"};
  if (what.where.rules != semantics::libsched)
    return failure{status::unsupported, "LogGOPSim's rules are for programs"};
  picoseconds width = std::numeric_limits<picoseconds>::max();
  for (const machine_level& level : what.where.levels) width = std::min(width, level.cost.L + level.cost.o);
  if (width <= 0) return failure{status::argument, "a message takes no time: L + o must be positive"};

  const auto begin = std::chrono::steady_clock::now();
  auto report = world_engine(ranks, what, record, width).run();
  if (report) report->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace lsched
