#include "libsched/simulate/simulated_round.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <limits>
#include <numeric>
#include <string>
#include <type_traits>

#include "libsched/schedule/round.h"
#include "libsched/simulate/event_queue.h"
#include "libsched/simulate/transfer.h"

namespace lsched {
namespace {

/// The value at which a sum of bytes saturates.
constexpr std::uint64_t k_too_many_bytes = std::numeric_limits<std::uint64_t>::max();

std::string in_us(picoseconds time) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.10g us", static_cast<double>(time) / 1e6);
  return text.data();
}

template <class Time>
struct rank_state {
  Time cpu = at_instant<Time>(0);
  nic_times<Time> nic;
  std::uint32_t outstanding : 30 = 0;  ///< number of ops that have fired but not completed
  bool has_exited : 1 = false;
  bool has_ended : 1 = false;
  typename departures<Time>::head departing = departures<Time>::k_none;
};

template <class Time>
class world_engine {
 public:
  world_engine(const packed_world& world, const simulated_round& scenario, simulation_record* record, picoseconds width)
      : world_(world),
        scenario_(scenario),
        record_(record),
        sharing_(scenario.where.sharing_level()),
        nic_ranks_(scenario.where.shares_nics() ? scenario.where.levels[sharing_].ranks : 1),
        events_(world, width, nic_ranks_),
        ranks_(static_cast<std::size_t>(world.size())),
        costs_(world, scenario.where) {
    for (const packed_shape& shape : world.shapes()) states_.emplace_back(shape);
    if (scenario.where.shares_nics()) nics_.resize(index_of((world.size() - 1) / nic_ranks_) + 1);
  }

  result<simulation_report> run() {
    for (rank r = 0; r < world_.size(); ++r)
      if (const picoseconds start = start_of(r); start < 0 || start >= k_forever) return refuse(r, start);
    report_.finish.assign(ranks_.size(), 0);
    open_calls();
    for (rank r = 0; r < world_.size(); ++r)
      if (program(r).is_partial()) begin(r);  // a partial round is open before the rank calls
    for (rank r = 0; r < world_.size(); ++r) push({at_instant<Time>(start_of(r)), r, {event_kind::start}});
    while (!events_.is_empty() && fault_.empty()) {
      const auto& events = events_.take();
      for (std::size_t i = 0; i < events.size(); ++i) {
        if (i + k_ahead < events.size()) ask_for_memory(events_.rank_of(events[i + k_ahead]));
        handle({events_.time_of(events[i]), events_.rank_of(events[i]), events_.label_of(events[i])});
      }
      if (scenario_.progress && report_.messages >= told_ + k_telling) scenario_.progress(told_ = report_.messages);
    }
    return finish();
  }

 private:
  struct event {
    Time when{};
    rank who = 0;
    label what{};
    picoseconds instant() const { return instant_of(when); }
  };
  using state = rank_state<Time>;
  static constexpr std::size_t k_ahead = 12;  ///< distance, in events, at which the state for an event is prefetched
  static constexpr std::uint64_t k_telling = 1 << 22;

  static std::size_t index_of(rank r) { return static_cast<std::size_t>(r); }
  state& state_of(rank r) { return ranks_[index_of(r)]; }
  const packed_shape& program(rank r) const { return world_.shapes()[world_.member(r).shape]; }

  void ask_for_memory(rank r) {
    __builtin_prefetch(&state_of(r), 1);
    const auto [shape, index] = world_.member(r);
    __builtin_prefetch(states_[shape].first_word(index), 1);
  }

  picoseconds start_of(rank r) const { return scenario_.starts ? scenario_.starts(r) : 0; }

  static failure refuse(rank r, picoseconds start) {
    return {status::argument,
            "rank " + std::to_string(r) + " would begin at " + in_us(start) + (start == k_forever ? " or later" : "") +
                ": use starts from 0 to " + in_us(k_forever),
            r};
  }

  /// Draws the candidates of the round, as the engine does. With the activation policy `majority`, the only candidate
  /// is simulated_round::initiator.
  void open_calls() {
    std::vector<rank> all(ranks_.size());
    std::iota(all.begin(), all.end(), 0);
    calls_ = round_calls(world_.starts(), world_.size());
    calls_.open(scenario_.instance, all);
    if (world_.starts().policy == activation_policy::majority) calls_.appoint(scenario_.initiator);
  }

  // --- a rank ------------------------------------------------------------------------------------------------

  /// The interpreter of a rank. round_player (round.h) calls its functions to run a round. The rank's CPU executes ops
  /// in the order in which they were enqueued.
  struct interpreter {
    using number = op_id;
    world_engine& in;
    const rank self;
    const packed_world::membership place;
    const packed_shape& shape;
    packed_state& bits;
    state& own;

    interpreter(world_engine& engine, rank r)
        : in(engine),
          self(r),
          place(engine.world_.member(r)),
          shape(engine.world_.shapes()[place.shape]),
          bits(engine.states_[place.shape]),
          own(engine.state_of(r)) {}

    const packed_op& packed(op_id id) const { return shape.ops()[id]; }
    op at(op_id id) const {
      const packed_op& from = packed(id);
      op o{.kind = from.kind, .guard = static_cast<std::uint8_t>(from.guard & 0x7f), .need = from.need};
      if (is_communication(from.kind)) o.peer = in.world_.peer_of(shape, from, self, place.index);
      o.tag = packed_world::tag_of(shape, from, place.index);
      return o;
    }
    std::uint32_t need(op_id id) const { return packed(id).need; }
    std::span<const op_id> successors(op_id id) const { return shape.successors(id); }
    bool is_exit(op_id id) const { return id == shape.exit(); }
    rank rank_of(op_id) const { return self; }

    std::uint32_t add_token(op_id id, op_id from) {
      const std::uint32_t tokens = bits.add_token(place.index, id);
      if (in.is_recorded(self) && tokens <= need(id)) in.record_->deps.push_back({self, from, id});
      return tokens;
    }
    bool test(op_id id, packed_state::flag which) const { return bits.test(place.index, id, which); }
    void set(op_id id, packed_state::flag which) { bits.set(place.index, id, which); }
    void mark(op_id id) { set(id, packed_state::done); }
    void add_outstanding(op_id, int by) {
      own.outstanding = (own.outstanding + static_cast<unsigned>(by)) & 0x3fffffff;
    }
    void exited(op_id) { own.has_exited = true; }
    void enqueue(op_id id) { in.ready_.push_back(id); }

    const guard* guard_of(op_id, const op& o) const { return shape.guard_of(o); }
    round_no round() const { return in.scenario_.instance; }
    /// Returns the op's size for lists of typical length. The player compares this size only with 0
    /// (round_player::is_void).
    std::uint64_t items_of(op_id id, const op&) const { return is_signal(packed(id).kind) ? 0 : bytes_at(id); }
    const round_calls& calls() const { return in.calls_; }
    static const std::vector<rank>* present() { return nullptr; }
    round_no listen(op_id id, const op& o) const {
      if (test(id, packed_state::arrived)) return round();
      if (is_call(o, self) && o.tag == k_grace_tag) in.pass_later(*this, id, own.cpu, in.world_.starts().grace_us);
      return 0;
    }

    std::uint32_t size_at(op_id id) const { return packed_world::size_number_of(shape, packed(id), place.index); }
    std::uint64_t bytes_at(op_id id) const { return in.world_.bytes_of(size_at(id)); }

    const message_cost& cost_of(op_id id, const op& o) const {
      const std::size_t level = is_communication(o.kind) ? in.scenario_.where.level_of(self, o.peer) : 0;
      return in.costs_.cost(size_at(id), level);
    }
    bool is_eager(const op& o, const message_cost& cost) const { return cost.is_eager || is_signal(o.kind); }
    picoseconds noise(op_id id, picoseconds cost) const {
      return in.scenario_.noise ? in.scenario_.noise(self, id, cost) : 0;
    }

    // --- execution of ops

    template <class Work>
    outcome carry_out(op_id id, const op& o, const Work& work) {
      const Time begin = own.cpu;
      if (in.is_recorded(self)) set_last_op(own.cpu, in.record_->ops.size());
      const bool is_over = work();
      if (in.is_recorded(self)) record(id, o, o.kind, begin);
      return is_over ? outcome::done : outcome::pending;
    }
    void record(op_id id, const op& o, op_kind kind, const Time& begin, bool is_void = false) {
      in.record_->ops.push_back(
          {self, id, kind, o.peer, o.tag, instant_of(begin), instant_of(own.cpu), is_void, last_op_of(begin)});
    }
    outcome nop(op_id id, const op& o) {
      return carry_out(id, o, [] { return true; });
    }
    outcome pass_over(op_id id, const op& o) {
      if (in.is_recorded(self)) record(id, o, op_kind::nop, own.cpu, true);
      return outcome::done;
    }
    outcome signal(op_id id, const op& o) { return send(id, o); }
    /// Returns `done` for an eager message, because its send buffer can be reused at once.
    outcome send(op_id id, const op& o) {
      return carry_out(id, o, [&] {
        const message_cost& paid = cost_of(id, o);
        const bool is_short = is_eager(o, paid);
        const picoseconds delay = noise(id, is_short ? paid.sender.time : paid.overhead.time);
        Time& nic = in.nic_of(self, o.peer).sends_from;
        const Time arrives = is_short ? send_eagerly(own.cpu, nic, paid, delay) : announce(own.cpu, paid, delay);
        in.post(self, o, arrives, is_short ? event_kind::data : event_kind::request, bytes_at(id));
        return is_short;
      });
    }
    outcome receive(op_id id, const op& o) {
      if (test(id, packed_state::arrived))
        return carry_out(id, o, [&] { return charge_cpu(id, cost_of(id, o).receiver); });
      if (test(id, packed_state::announced)) ask_for(id, o);
      return outcome::pending;
    }
    outcome take_signal(op_id id, const op& o) {
      return carry_out(id, o, [&] { return is_call(o, self) || charge_cpu(id, cost_of(id, o).receiver); });
    }
    outcome compute(op_id id, const op& o) {
      return carry_out(id, o, [&] { return charge_cpu(id, cost_of(id, o).combination); });
    }
    outcome capture(op_id id, const op& o) {
      return carry_out(id, o, [&] {
        if (in.start_of(self) <= instant_of(own.cpu)) ++in.report_.active;
        return true;
      });
    }

    /// Charges CPU time. Returns true, because an op that needs nothing but CPU time is then complete.
    bool charge_cpu(op_id id, const charge& cost) {
      own.cpu = own.cpu + cost + lost(noise(id, cost.time));
      return true;
    }

    /// Sends the grant for an announced message, so that the sender can move the data (rendezvous).
    void ask_for(op_id id, const op& o) {
      const message_cost& paid = cost_of(id, o);
      const Time granted = grant(own.cpu, paid);
      in.push(o.peer, op_kind::send, self, o.tag, granted, event_kind::grant);
    }
  };

  void begin(rank r) {
    interpreter me(*this, r);
    round_player(me).begin(me.shape.roots());
    work(me);
  }

  /// Executes the ops in ready_, in order, including ops that are added meanwhile.
  void work(interpreter& me) {
    for (std::size_t i = 0; i < ready_.size(); ++i) {
      const op_id id = ready_[i];
      if (me.test(id, packed_state::done)) continue;
      go_on(me, id);
      end_if_over(me, me.own.cpu, ready_.size() - i - 1);
    }
    ready_.clear();
  }

  /// Fires an op that has its tokens. If the op has already fired, its message or signal must have arrived, and the op
  /// continues.
  void go_on(interpreter& me, op_id id) {
    round_player player(me);
    if (me.test(id, packed_state::fired)) {
      const op o = me.at(id);
      return player.resume(id, me.listen(id, o), [&] { return me.receive(id, o); });
    }
    me.set(id, packed_state::fired);
    player.fire(id);
  }

  /// Ends the round of the rank if the round is over. `enqueued` is the number of ops of the rank that have their
  /// tokens but have not fired yet.
  void end_if_over(interpreter& me, const Time& time, std::uint64_t enqueued) {
    if (me.own.has_ended || !round_player<interpreter>::is_over(me.own.has_exited, enqueued, me.own.outstanding))
      return;
    me.own.has_ended = true;
    report_.finish[index_of(me.self)] = instant_of(time);
    last_ = later(last_, time);
  }

  bool is_recorded(rank r) const { return record_ != nullptr && r < record_->ranks; }

  // --- events ------------------------------------------------------------------------------------------------

  void handle(const event& now) {
    interpreter me(*this, now.who);
    end_sends(me, now.instant());
    switch (now.what.kind) {
      case event_kind::start: return start(me, now.when);
      case event_kind::signal:
      case event_kind::data: return arrive(me, now);
      case event_kind::request: return go_on_with(me, now, now.when, packed_state::announced);
      case event_kind::deadline:
        if (!me.own.has_ended) go_on_with(me, now, now.when, packed_state::arrived);
        return;
      case event_kind::grant: return move(me, now);
      case event_kind::moved: return;  // nothing to do: end_sends() has already completed the send
    }
  }

  void start(interpreter& me, const Time& time) {
    if (!me.shape.is_partial()) {
      me.own.cpu = later(me.own.cpu, time);
      ++report_.active;
      round_player(me).begin(me.shape.roots());
      return work(me);
    }
    if (me.own.has_ended) return;
    for (const op_id id : me.shape.calls()) {
      if (is_engine_call(me.at(id)) || !calls_.counts(me.self, me.at(id).tag, nullptr)) continue;
      me.own.cpu = later(me.own.cpu, time);
      if (is_deadline_call(me.at(id), world_.starts())) {
        pass_later(me, id, time, world_.starts().number);
        continue;
      }
      me.set(id, packed_state::arrived);
      if (me.test(id, packed_state::fired)) ready_.push_back(id);
    }
    work(me);
  }

  /// Adds the event that the time of call op `id` has passed, `wait_us` after `from`.
  void pass_later(const interpreter& me, op_id id, const Time& from, std::uint32_t wait_us) {
    const picoseconds wait = picoseconds{wait_us} * 1'000'000;
    push({at_instant<Time>(instant_of(from) + wait), me.self, {event_kind::deadline, id}});
  }

  void arrive(interpreter& me, const event& now) {
    const op o = me.at(now.what.op);
    const message_cost& paid = me.cost_of(now.what.op, o);
    Time& nic = nic_of(now.who, o.peer).received;
    const Time in = take_in(nic, now.when, paid);
    if (instant_of(in) > now.instant()) ++report_.nic_waits;
    go_on_with(me, now, in, packed_state::arrived);
  }

  /// Sets a flag of the receive to which the event belongs. If the receive has fired, executes the receive.
  void go_on_with(interpreter& me, const event& now, const Time& time, packed_state::flag flag) {
    me.set(now.what.op, flag);
    if (!me.test(now.what.op, packed_state::fired)) return;
    me.own.cpu = later(me.own.cpu, time);
    ready_.push_back(now.what.op);
    work(me);
  }

  /// Handles a grant that arrives at the sender (rendezvous). The sender's NIC moves the data.
  void move(interpreter& me, const event& now) {
    const op o = me.at(now.what.op);
    Time& nic = nic_of(now.who, o.peer).sends_from;
    const Time arrives = move_data(nic, now.when, me.cost_of(now.what.op, o));
    departures_.add(me.own.departing, nic, now.what.op);
    push({nic, now.who, {event_kind::moved}});
    push(o.peer, op_kind::recv, now.who, o.tag, arrives, event_kind::data);
  }

  /// Adds the event that a send or signal causes at the peer.
  void post(rank from, const op& o, const Time& arrives, event_kind kind, std::uint64_t bytes) {
    if (o.kind == op_kind::signal_send) {
      ++report_.signals;
      return push(o.peer, op_kind::signal_recv, from, o.tag, arrives, event_kind::signal);
    }
    ++report_.messages;
    if (__builtin_add_overflow(report_.bytes, bytes, &report_.bytes)) report_.bytes = k_too_many_bytes;
    push(o.peer, op_kind::recv, from, o.tag, arrives, kind);
  }

  void push(const event& now) { events_.push(now.when, now.who, now.what); }

  /// Adds an event for the op of rank `self` with the given kind, peer and tag.
  void push(rank self, op_kind wanted, rank peer, std::uint32_t tag, const Time& when, event_kind kind) {
    const op_id id = world_.find(self, wanted, peer, tag);
    if (id == k_no_op) {
      fault_ = "rank " + std::to_string(self) + " has no receive of tag " + std::to_string(tag) + " from rank " +
               std::to_string(peer);
      return;
    }
    push({when, self, {kind, id}});
  }

  // --- NICs --------------------------------------------------------------------------------------------------

  /// Returns the times of the NIC that rank r uses for messages to or from `peer`. This is the NIC of the group if
  /// `peer` is in another group, else the NIC of rank r.
  nic_times<Time>& nic_of(rank r, rank peer) {
    const bool is_shared = !nics_.empty() && scenario_.where.level_of(r, peer) > sharing_;
    return is_shared ? nics_[index_of(r / nic_ranks_)] : state_of(r).nic;
  }

  /// Completes the rank's rendezvous sends whose last byte has left by the time `now`. Must be called before each event
  /// of the rank, so that a send completes in time even if it ends inside the current window.
  void end_sends(interpreter& mine, picoseconds now) {
    while (departures_.has_ended(mine.own.departing, now)) {
      const auto departed = departures_.take(mine.own.departing);
      round_player(mine).finish(departed.send);
      end_if_over(mine, departed.end, ready_.size());
      if (ready_.empty()) continue;
      mine.own.cpu = later(mine.own.cpu, departed.end);
      work(mine);
    }
  }

  // --- the end -----------------------------------------------------------------------------------------------

  result<simulation_report> finish() {
    if (!fault_.empty()) return failure{status::unmatched, fault_};
    for (rank r = 0; r < world_.size(); ++r)
      if (!state_of(r).has_ended) return stuck(r);
    report_.memory = world_.memory() + events_.memory() + ranks_.capacity() * sizeof(state) +
                     nics_.capacity() * sizeof(nic_times<Time>) + departures_.memory() + costs_.memory() +
                     report_.finish.capacity() * sizeof(picoseconds);
    for (const packed_state& shape : states_) report_.memory += shape.memory();
    if constexpr (std::is_same_v<Time, traced_time>) report_.critical_path = last_.parts;
    if (record_ != nullptr) record_->last_op = last_op_of(last_);
    if (report_.last() >= k_forever)
      return failure{status::unsupported, "the round takes longer than " + in_us(k_forever) +
                                              " of simulated time: set shorter times in the machine description"};
    if (report_.bytes == k_too_many_bytes)
      return failure{status::unsupported, "the round sends more than 2^64 bytes: use a smaller count"};
    return std::move(report_);
  }

  failure stuck(rank r) {
    const interpreter me(*this, r);
    for (op_id id = 0; id < me.shape.ops().size(); ++id) {
      if (!me.test(id, packed_state::fired) || me.test(id, packed_state::done) || me.packed(id).kind != op_kind::recv)
        continue;
      return {status::state,
              "rank " + std::to_string(r) + " waits forever for a message from rank " + std::to_string(me.at(id).peer),
              r, id};
    }
    return {status::state, "rank " + std::to_string(r) + " never ends the round", r};
  }

  const packed_world& world_;
  const simulated_round& scenario_;
  simulation_record* record_;
  const std::size_t sharing_;  ///< level whose groups share a NIC (machine::sharing_level)
  const rank nic_ranks_;       ///< number of ranks that share a NIC; 1: NICs are not shared
  event_queue<Time> events_;
  std::vector<state> ranks_;
  std::vector<packed_state> states_;  ///< by shape: state of its ops
  std::vector<nic_times<Time>> nics_;
  departures<Time> departures_;
  std::vector<op_id> ready_;  ///< queue of ops that have their tokens; belongs to the rank whose event is handled
  round_calls calls_;
  cost_table costs_;
  std::string fault_;
  Time last_ = at_instant<Time>(0);
  std::uint64_t told_ = 0;
  simulation_report report_;
};

}  // namespace

result<simulation_report> simulate_round(const packed_world& ranks, const simulated_round& what,
                                         simulation_record* record, bool trace) {
  const picoseconds width = lookahead(what.where, ranks.longest_message());
  if (width <= 0)
    return failure{status::argument,
                   "a message takes no time: set L + o above 0, or for messages longer than S, L above 0"};
  if (ranks.starts().policy == activation_policy::deadline && ranks.starts().number == k_auto_deadline)
    return failure{status::argument,
                   "deadline(auto) uses earlier rounds, but the simulation has one round: use deadline(microseconds)"};
  const auto begin = std::chrono::steady_clock::now();
  auto report = trace ? world_engine<traced_time>(ranks, what, record, width).run()
                      : world_engine<picoseconds>(ranks, what, record, width).run();
  if (report) report->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace lsched
