#include "libsched/window.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <type_traits>
#include <variant>

#include "libsched/activation_wave.h"
#include "libsched/calendar.h"
#include "libsched/transfer.h"

namespace lsched {
namespace {

enum class event_kind : std::uint32_t { start, signal, data, request, grant };

/// What of a message: twelve bits.
struct message_label {
  event_kind kind = event_kind::start;
  std::uint8_t size = 0;
  std::uint32_t receive = 0;  ///< number of the receive, up to 127; not used where all come from one source
};

constexpr std::uint64_t pack(const message_label& it) {
  return static_cast<std::uint64_t>(it.kind) << 9 | std::uint64_t{it.size} << 7 | (it.receive & 0x7f);
}

/// Something that happens at a rank. 16 bytes if time is plain: 52 bits of it are 75 minutes.
template <class Time>
struct message_event {
  std::uint64_t bits = 0;
  rank who = 0;   ///< where it happens
  rank peer = 0;  ///< who caused it
  [[no_unique_address]] std::conditional_t<std::is_same_v<Time, traced_time>, path_parts, std::monostate> parts{};

  message_event() = default;
  message_event(const Time& time, rank at, rank by, const message_label& what)
      : bits(static_cast<std::uint64_t>(lsched::instant_of(time)) << 12 | pack(what)), who(at), peer(by) {
    if constexpr (std::is_same_v<Time, traced_time>) parts = time.parts;
  }

  picoseconds instant() const { return static_cast<picoseconds>(bits >> 12); }
  Time time() const {
    if constexpr (std::is_same_v<Time, traced_time>)
      return {.at = instant(), .parts = parts};
    else
      return instant();
  }
  event_kind kind() const { return static_cast<event_kind>(bits >> 9 & 7); }
  std::uint8_t size() const { return bits >> 7 & 3; }
  std::uint32_t receive() const { return bits & 0x7f; }
  bool is_before(const message_event& other) const {
    return peer != other.peer ? peer < other.peer : bits < other.bits;
  }
};
static_assert(sizeof(message_event<picoseconds>) == 16);

/// No simulated time reaches this.
constexpr picoseconds k_end_of_time = picoseconds{1} << 51;

constexpr std::uint32_t k_asleep = ~0u;

template <class Time>
struct actor {
  Time cpu = at_instant<Time>(0);
  Time sends_from = at_instant<Time>(0);         ///< its NIC can send again
  Time received = at_instant<Time>(k_long_ago);  ///< its NIC's last message was in (LogGOPSim: can receive again)
  std::uint64_t arrived = 0;      ///< early ones; from one source their number, else a bit each, from `receive` on
  std::uint32_t next = k_asleep;  ///< step
  std::uint32_t receive = 0;      ///< number of the next receive
};

/// The NIC of a group.
template <class Time>
struct shared_nic {
  Time sends_from = at_instant<Time>(0);
  Time received = at_instant<Time>(k_long_ago);
};

template <class Program, class Time, bool SharesNics>
class window_engine {
 public:
  window_engine(const simulation& what, const Program& program, picoseconds width, simulation_record* record)
      : what_(what),
        program_(program),
        record_(record),
        starts_(what.skew, program.size, what.instance),
        is_flat_(what.where.levels.size() == 1),
        is_silent_(what.noise.is_silent()),
        is_partial_(what.starts.is_woken()),
        is_foreign_(what.where.rules == semantics::loggopsim),
        calendar_(program.size, width, SharesNics ? what.where.levels[what.where.sharing_level()].ranks : 1) {
    tabulate_costs();
    sort_starts();
    next_start_ = starts_(next_starter());
    actors_.resize(static_cast<std::size_t>(program.size));
    if constexpr (SharesNics) {
      sharing_ = what.where.sharing_level();
      nics_.resize(static_cast<std::size_t>((program.size - 1) / what.where.levels[sharing_].ranks) + 1);
      left_.assign(actors_.size(), at_instant<Time>(0));
    }
    if constexpr (std::is_same_v<Program, recursive_doubling_program>)
      if (is_partial_) wave_.emplace(program.size);
  }

  result<simulation_report> run() {
    while (!is_over()) {
      const std::int64_t window = next_window();
      push_starts(window);
      const auto& events = calendar_.take(window);
      for (std::size_t i = 0; i < events.size(); ++i) {
        if (i + k_ahead < events.size()) __builtin_prefetch(&at(events[i + k_ahead].who), 1);
        handle(events[i]);
      }
      if (what_.progress && report_.messages >= told_ + k_telling) what_.progress(told_ = report_.messages);
    }
    return finish();
  }

 private:
  using event = message_event<Time>;
  static constexpr std::size_t k_ahead = 12;  ///< how far memory is asked for in advance
  static constexpr std::uint64_t k_telling = 1 << 22;
  static constexpr std::uint8_t k_signal = 3;  ///< the size class of signals

  actor<Time>& at(rank r) { return actors_[static_cast<std::size_t>(r)]; }

  /// The NIC that rank r uses for its messages with `peer`: its group's for those outside, else its own.
  Time& nic_out(rank r, rank peer) {
    if constexpr (SharesNics)
      if (what_.where.level_of(r, peer) > sharing_) return nic_of(r).sends_from;
    return at(r).sends_from;
  }
  Time& nic_in(rank r, rank peer) {
    if constexpr (SharesNics)
      if (what_.where.level_of(r, peer) > sharing_) return nic_of(r).received;
    return at(r).received;
  }
  shared_nic<Time>& nic_of(rank r) { return nics_[static_cast<std::size_t>(r / what_.where.levels[sharing_].ranks)]; }

  // --- set-up ------------------------------------------------------------------------------------------------

  void tabulate_costs() {
    for (std::size_t level = 0; level < what_.where.levels.size(); ++level)
      for (std::uint8_t size = 0; size < 4; ++size) {
        message_cost cost = cost_of(what_.where, level, size == k_signal ? k_signal_bytes : program_.bytes_of(size));
        if (is_foreign_ || size == k_signal) cost.is_eager = true;
        costs_.push_back(cost);
      }
  }

  const message_cost& cost(rank x, rank y, std::uint8_t size) const {
    return costs_[(is_flat_ ? 0 : what_.where.level_of(x, y)) * 4 + size];
  }

  /// Starts enter the calendar when their window comes, in this order; nothing is kept if it is that of the ranks.
  void sort_starts() {
    struct entry {
      picoseconds time;
      rank who;
    };
    bool is_sorted = true;
    for (rank r = 1; r < program_.size && is_sorted; ++r) is_sorted = starts_(r) >= starts_(r - 1);
    if (is_sorted) return;
    std::vector<entry> entries(static_cast<std::size_t>(program_.size));
    for (rank r = 0; r < program_.size; ++r) entries[static_cast<std::size_t>(r)] = {starts_(r), r};
    std::sort(entries.begin(), entries.end(),
              [](const entry& x, const entry& y) { return x.time != y.time ? x.time < y.time : x.who < y.who; });
    order_.resize(entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) order_[i] = entries[i].who;
  }

  // --- time --------------------------------------------------------------------------------------------------

  rank next_starter() const { return order_.empty() ? started_ : order_[static_cast<std::size_t>(started_)]; }
  bool is_over() const { return started_ == program_.size && calendar_.is_empty(); }

  std::int64_t next_window() const {
    if (started_ == program_.size) return calendar_.first_window();
    const std::int64_t start = calendar_.window_of(next_start_);
    return calendar_.is_empty() ? start : std::min(start, calendar_.first_window());
  }

  void push_starts(std::int64_t window) {
    while (started_ < program_.size && calendar_.window_of(next_start_) == window) {
      const rank who = next_starter();
      post(at_instant<Time>(next_start_), who, who, {event_kind::start});
      if (++started_ < program_.size) next_start_ = starts_(next_starter());
    }
  }

  // --- events ------------------------------------------------------------------------------------------------

  void post(const Time& time, rank where, rank by, const message_label& what) {
    if (instant_of(time) < k_end_of_time)
      calendar_.push(event(time, where, by, what));
    else
      is_too_long_ = true;
  }

  void handle(const event& it) {
    switch (it.kind()) {
      case event_kind::start: return start(it);
      case event_kind::signal: return hear(it);
      case event_kind::data: return take(it);
      case event_kind::request: return answer_or_note(it);
      case event_kind::grant: return move_data(it);
    }
  }

  void start(const event& it) {
    actor<Time>& me = at(it.who);
    if (is_partial_) {
      const bool counts = what_.starts.policy == activation_policy::solo || it.who == what_.initiator;
      if (!counts || has_ended(it.who)) return;
      record(op_kind::signal_recv, it.who, it.who, it.receive(), it.time());
      wake(it.who, activation_wave::k_call, it.time());
      return;
    }
    me.cpu = later(it.time(), me.cpu);
    ++report_.active;
    begin(it.who);
  }

  void begin(rank r) {
    at(r).next = 0;
    resume(r);
  }

  bool has_ended(rank r) { return at(r).next != k_asleep && program_.at(r, at(r).next).kind == step_kind::end; }

  /// The receiver's NIC takes messages in one after the other.
  Time into_memory(const event& it, const message_cost& cost) {
    const Time in = take_in(nic_in(it.who, it.peer), it.time(), cost);
    if (instant_of(in) > it.instant()) ++report_.nic_waits;
    return in;
  }

  void hear(const event& it) {
    actor<Time>& me = at(it.who);
    const message_cost& paid = cost(it.who, it.peer, k_signal);
    const Time in = into_memory(it, paid);
    const Time begin = later(me.cpu, in);
    me.cpu = begin + paid.receiver + lost(drag(it.who, paid.receiver.time));
    record(op_kind::signal_recv, it.who, it.peer, it.receive(), begin);
    wake(it.who, it.receive(), me.cpu);
  }

  void wake(rank r, std::uint32_t cause, const Time& now) {
    actor<Time>& me = at(r);
    me.cpu = later(me.cpu, now);
    const bool is_first = wave_->wake(r, cause, [&](rank peer, std::uint32_t receive) {
      const message_cost& paid = cost(r, peer, k_signal);
      const Time begin = me.cpu;
      const Time ready = send_eagerly(me.cpu, nic_out(r, peer), paid,
                                      {.drag = drag(r, paid.sender.time), .head_drag = drag(r, paid.overhead.time)});
      record(op_kind::signal_send, r, peer, receive, begin);
      post(ready, peer, r, {event_kind::signal, k_signal, receive});
      ++report_.signals;
    });
    if (!is_first) return;
    if (starts_(r) <= instant_of(me.cpu)) ++report_.active;
    begin(r);
  }

  void take(const event& it) {
    actor<Time>& me = at(it.who);
    const message_cost& paid = cost(it.who, it.peer, it.size());
    if (is_foreign_) {
      const Time begin = receive_blocking(me.cpu, nic_in(it.who, it.peer), it.time(), paid, [&](const Time& from) {
        return noise(it.who, it.receive(), from, paid.receiver.time);
      });
      record(op_kind::recv, it.who, it.peer, it.receive(), begin);
      return note(it);
    }
    const Time in = into_memory(it, paid);
    if (!is_awaited(it)) return note(it);
    me.cpu = later(me.cpu, in);
    consume(it.who, program_.at(it.who, me.next), paid);
    resume(it.who);
  }

  bool is_awaited(const event& it) {
    const actor<Time>& me = at(it.who);
    return me.next != k_asleep && (Program::k_one_source || it.receive() == me.receive);
  }

  /// The message, or its announcement, is there before its receive, or is all that its receive waits for.
  void note(const event& it) {
    actor<Time>& me = at(it.who);
    if constexpr (Program::k_one_source) {
      ++me.arrived;
    } else {
      const std::uint32_t ahead = it.receive() - me.receive;
      if (ahead >= 64) too_far_ = true;
      me.arrived |= std::uint64_t{1} << (ahead & 63);
    }
    if (me.next != k_asleep) resume(it.who);
  }

  /// Whether the next receive's message, or its announcement, is noted; it then is no more.
  bool recall(actor<Time>& me) const {
    const bool is_there = Program::k_one_source ? me.arrived > 0 : (me.arrived & 1) != 0;
    me.arrived -= is_there ? 1 : 0;
    return is_there;
  }

  void consume(rank r, const step& now, const message_cost& paid) {
    actor<Time>& me = at(r);
    const Time begin = me.cpu;
    if (!is_foreign_) me.cpu = me.cpu + paid.receiver;
    for (std::uint8_t pass = 0; pass < now.passes; ++pass) me.cpu = me.cpu + paid.combination;
    me.cpu = me.cpu + lost(noise(r, me.next, begin, instant_of(me.cpu) - instant_of(begin)));
    if (!is_foreign_)
      record(op_kind::recv, r, now.peer, now.receive, begin);
    else if (now.passes != 0)
      record(op_kind::compute, r, k_no_rank, 0, begin);
    if constexpr (!Program::k_one_source) me.arrived >>= 1;
    ++me.receive;
    ++me.next;
  }

  void resume(rank r) {
    actor<Time>& me = at(r);
    while (true) {
      const step now = program_.at(r, me.next);
      if (now.kind == step_kind::end) return end(r);
      if (now.kind == step_kind::send) {
        send(r, now);
        continue;
      }
      if (!recall(me)) return;
      const message_cost& paid = cost(r, now.peer, now.size);
      if (!paid.is_eager) return grant(r, now, paid);
      consume(r, now, paid);
    }
  }

  Time depart(Time& cpu, Time& nic, const message_cost& paid, const disturbance& met) const {
    if (!paid.is_eager) return announce(cpu, paid, met);
    if (is_foreign_) return send_blocking(cpu, nic, paid, met);
    return send_eagerly(cpu, nic, paid, met);
  }

  void send(rank r, const step& now) {
    actor<Time>& me = at(r);
    const message_cost& paid = cost(r, now.peer, now.size);
    const Time begin = me.cpu;
    Time& nic = nic_out(r, now.peer);
    const Time arrives = is_silent_
                             ? depart(me.cpu, nic, paid, {})  // nothing to add up
                             : depart(me.cpu, nic, paid,
                                      disturbance_of(what_.noise, r, what_.instance, me.next, instant_of(begin), paid));
    record(op_kind::send, r, now.peer, now.receive, begin);
    const event_kind kind = paid.is_eager ? event_kind::data : event_kind::request;
    post(arrives, now.peer, r, {kind, now.size, now.receive});
    ++report_.messages;
    add_bytes(report_.bytes, program_.bytes_of(now.size));
    ++me.next;
  }

  // --- rendezvous: request, grant, data ----------------------------------------------------------------------

  void answer_or_note(const event& it) {
    actor<Time>& me = at(it.who);
    if (is_awaited(it)) me.cpu = later(me.cpu, it.time());
    note(it);
  }

  /// The receive has been reached and its message announced: the sender may move it.
  void grant(rank r, const step& now, const message_cost& paid) {
    actor<Time>& me = at(r);
    post(lsched::grant(me.cpu, paid, drag(r, paid.overhead.time)), now.peer, r,
         {event_kind::grant, now.size, me.receive});
  }

  /// At the sender: its NIC does the rest.
  void move_data(const event& it) {
    const message_cost& paid = cost(it.who, it.peer, it.size());
    Time& nic = nic_out(it.who, it.peer);
    const Time arrives = lsched::move_data(nic, it.time(), paid);
    if constexpr (SharesNics) left(it.who) = later(left(it.who), nic);
    post(arrives, it.peer, it.who, {event_kind::data, it.size(), it.receive()});
  }

  /// What rank r's CPU did from `begin` until now, for its next step or a signal.
  void record(op_kind kind, rank r, rank peer, std::uint32_t tag, const Time& begin) {
    if constexpr (std::is_same_v<Time, traced_time>) {
      if (record_ == nullptr || r >= record_->ranks) return;
      const op_id op = is_signal(kind) || at(r).next == k_asleep ? tag : at(r).next;
      record_->ops.push_back({r, op, kind, peer, tag, instant_of(begin), instant_of(at(r).cpu)});
    }
  }

  picoseconds noise(rank r, std::uint64_t op, const Time& begin, picoseconds cost) const {
    if (is_silent_) return 0;
    return delay_of(what_.noise, r, what_.instance, op, instant_of(begin), cost);
  }

  picoseconds drag(rank r, picoseconds cost) const { return is_silent_ ? 0 : drag_of(what_.noise, r, cost); }

  // --- the end -----------------------------------------------------------------------------------------------

  result<simulation_report> finish() {
    if (is_too_long_) return failure{status::unsupported, "it takes longer than 37 minutes of simulated time"};
    if (too_far_) return failure{status::unsupported, "a message came more than 63 receives before its turn"};
    report_.engine = "window";
    report_.memory = sizeof(*this) + calendar_.memory() + actors_.capacity() * sizeof(actor<Time>) +
                     order_.capacity() * sizeof(rank) + nics_.capacity() * sizeof(shared_nic<Time>) +
                     left_.capacity() * sizeof(Time) + (wave_ ? wave_->memory() : 0) +
                     actors_.size() * sizeof(picoseconds);  // what follows
    report_.finish.resize(actors_.size());
    for (rank r = 0; r < program_.size; ++r) {
      if (!has_ended(r)) return failure{status::internal, "a rank never ends", r};
      if (has_rendezvous())
        end_at(r, later(at(r).cpu, last_departure(r)));
      else if (!is_partial_)
        end_at(r, at(r).cpu);
    }
    if constexpr (std::is_same_v<Time, traced_time>) report_.critical_path = last_.parts;
    return checked(std::move(report_));
  }

  /// A woken rank may hear more signals after its end.
  void end(rank r) {
    if (is_partial_) end_at(r, at(r).cpu);
  }

  void end_at(rank r, const Time& time) {
    report_.finish.resize(actors_.size());
    report_.finish[static_cast<std::size_t>(r)] = instant_of(time);
    last_ = later(last_, time);
  }

  /// When a NIC has moved the rank's last rendezvous.
  Time last_departure(rank r) {
    if constexpr (SharesNics)
      return left(r);
    else
      return at(r).sends_from;
  }

  Time& left(rank r) { return left_[static_cast<std::size_t>(r)]; }

  bool has_rendezvous() const { return !is_foreign_ && program_.bytes_of(1) > what_.where.S; }

  const simulation& what_;
  const Program& program_;
  simulation_record* record_;
  const start_times starts_;
  const bool is_flat_, is_silent_, is_partial_, is_foreign_;
  calendar<event, SharesNics> calendar_;
  std::vector<message_cost> costs_;  ///< four sizes of each level
  std::vector<rank> order_;
  rank started_ = 0;
  picoseconds next_start_ = 0;  ///< drawn once
  std::vector<actor<Time>> actors_;
  std::optional<activation_wave> wave_;
  std::size_t sharing_ = 0;             ///< the level whose groups share a NIC
  std::vector<shared_nic<Time>> nics_;  ///< of these groups
  std::vector<Time> left_;              ///< where NICs are shared, by rank
  Time last_ = at_instant<Time>(0);
  bool too_far_ = false, is_too_long_ = false;
  std::uint64_t told_ = 0;
  simulation_report report_;
};

template <class Program, bool SharesNics>
result<simulation_report> run(const simulation& what, const Program& program, bool trace, simulation_record* record) {
  const picoseconds width = lookahead(what.where, program.bytes_of(1), what.noise.pace);
  if (width <= 0)
    return failure{status::argument, "a message takes no time: L + o (L alone beyond S) must be positive"};
  if constexpr (std::is_same_v<Program, halving_program>)
    return failure{status::unsupported,
                   "halving has messages of too many sizes for this engine: simulate its schedules"};
  if (what.starts.is_woken() && !std::is_same_v<Program, recursive_doubling_program>)
    return failure{status::unsupported, "only recursive doubling can be activated without its schedules"};
  if (has_number(what.starts.policy) || (what.starts.is_woken() && what.starts.full_every != 0))
    return failure{status::unsupported, words_for(what.starts) + " needs its schedules"};
  const start_times starts(what.skew, program.size, what.instance);
  if (auto why = objection_to(starts, program.size, k_end_of_time)) return std::move(*why);
  if (trace || record != nullptr)
    return window_engine<Program, traced_time, SharesNics>(what, program, width, record).run();
  return window_engine<Program, picoseconds, SharesNics>(what, program, width, nullptr).run();
}

}  // namespace

result<simulation_report> simulate_window(const simulation& what, bool trace, simulation_record* record) {
  const auto begin = std::chrono::steady_clock::now();
  const auto play = [&]<class Program>(const Program& it) {
    return what.where.shares_nics() ? run<Program, true>(what, it, trace, record)
                                    : run<Program, false>(what, it, trace, record);
  };
  auto report = std::visit(play, what.what);
  if (report) report->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace lsched
