#include "libsched/simulate/schedule_world.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <numeric>
#include <string>
#include <tuple>
#include <type_traits>

#include "libsched/schedule/round.h"
#include "libsched/simulate/calendar.h"
#include "libsched/simulate/transfer.h"

namespace lsched {
namespace {

enum class event_kind : std::uint8_t { start, signal, data, request, grant, moved };

/// What happens, and the op that it is for; in this order where all else is equal.
struct label {
  event_kind kind = event_kind::start;
  op_id op = 0;
};
constexpr std::uint32_t number_of(const label& it) { return it.op << 3 | static_cast<std::uint32_t>(it.kind); }
constexpr label label_of(std::uint32_t number) { return {static_cast<event_kind>(number & 7), number >> 3}; }

/// Of two events that reach a rank in the same picosecond: first by who caused it, then by kind, then by tag.
bool is_before(const packed_world& world, rank who, const label& x, const label& y) {
  const auto [shape, index] = world.member(who);
  const packed_shape& mine = world.shapes()[shape];
  const auto cause = [&](const label& it) {
    const bool is_own = it.kind == event_kind::start || it.kind == event_kind::moved;
    const packed_op& what = mine.ops()[it.op];
    return std::tuple(is_own ? who : world.peer_of(mine, what, who, index), it.kind,
                      is_own ? 0 : packed_world::tag_of(mine, what, index));
  };
  return cause(x) < cause(y);
}

/// Events that know their instant, and the path to it.
template <class Time>
struct wide_code {
  struct event {
    Time when{};
    rank rank_of = 0;
    std::uint32_t number = 0;
  };
  const packed_world* world;

  wide_code(const packed_world& all, picoseconds) : world(&all) {}
  static event pack(const Time& when, rank who, const label& what) { return {when, who, number_of(what)}; }
  static rank who(const event& it) { return it.rank_of; }
  static label what(const event& it) { return label_of(it.number); }
  static picoseconds order(const event& it) { return instant_of(it.when); }
  static Time time(const event& it, picoseconds) { return it.when; }
  bool is_before(const event& x, const event& y) const { return lsched::is_before(*world, who(x), what(x), what(y)); }
};

/// Events in 8 bytes: rank, time since the beginning of the window, label.
struct narrow_code {
  using event = std::uint64_t;
  const packed_world* world;
  int time_bits, label_bits;

  narrow_code(const packed_world& all, picoseconds width)
      : world(&all), time_bits(calendar<narrow_code>::shift_of(width)), label_bits(bits_of_labels(all)) {}
  static int bits_of_labels(const packed_world& all) {
    std::size_t most = 1;
    for (const packed_shape& it : all.shapes()) most = std::max(most, it.ops().size());
    return static_cast<int>(std::bit_width(most)) + 3;
  }
  static bool is_possible(const packed_world& all, picoseconds width) {
    const narrow_code it(all, width);
    return static_cast<int>(std::bit_width(static_cast<unsigned>(all.size()))) + it.time_bits + it.label_bits <= 64;
  }
  event pack(picoseconds when, rank who, const label& what) const {
    const auto since = static_cast<std::uint64_t>(when) & ((std::uint64_t{1} << time_bits) - 1);
    return (static_cast<std::uint64_t>(who) << time_bits | since) << label_bits | number_of(what);
  }
  rank who(event it) const { return static_cast<rank>(it >> label_bits >> time_bits); }
  label what(event it) const {
    return label_of(static_cast<std::uint32_t>(it & ((std::uint64_t{1} << label_bits) - 1)));
  }
  picoseconds order(event it) const {
    return static_cast<picoseconds>(it >> label_bits & ((std::uint64_t{1} << time_bits) - 1));
  }
  picoseconds time(event it, picoseconds begin) const { return begin + order(it); }
  bool is_before(event x, event y) const { return lsched::is_before(*world, who(x), what(x), what(y)); }
};

constexpr std::uint32_t k_none = ~0u;

template <class Time>
struct rank_state {
  Time cpu = at_instant<Time>(0);
  Time sends_from = at_instant<Time>(0);         ///< its NIC can send again
  Time received = at_instant<Time>(k_long_ago);  ///< its NIC's last message was in (LogGOPSim: can receive again)
  std::uint32_t outstanding : 30 = 0;            ///< ops that have fired and not completed
  bool has_exited : 1 = false;
  bool has_ended : 1 = false;
  std::uint32_t leaving = k_none;  ///< the first of its departures
};

/// The NIC of a group.
template <class Time>
struct shared_nic {
  Time sends_from = at_instant<Time>(0);
  Time received = at_instant<Time>(k_long_ago);
};

/// The state of a round for each rank of a shape, in as few bits as its ops need: of each op its tokens, as far as they
/// have to be told apart, and of a receive how far it is.
class packed_state {
 public:
  enum flag : std::uint64_t {
    fired = 1,
    arrived = 2,    ///< of a receive its message, of a call or a signal that its register satisfies the round
    announced = 4,  ///< rendezvous: a send waits for this receive
    done = 8
  };

  explicit packed_state(const packed_shape& shape) {
    std::uint32_t end = 0;
    for (const packed_op& it : shape.ops()) {
      const bool is_receive = it.kind == op_kind::recv || it.kind == op_kind::signal_recv;
      const auto tokens = static_cast<std::uint32_t>(std::bit_width(std::min(it.in_degree, it.need + 1)));
      const std::uint32_t width = tokens + (is_receive ? k_flags : 0);
      if (end / 64 != (end + width - 1) / 64 && width != 0) end = (end + 63) / 64 * 64;  // no field is in two words
      fields_.push_back({end, static_cast<std::uint8_t>(tokens), is_receive});
      end += width;
    }
    words_ = (end + 63) / 64;
    bits_.resize(words_ * shape.ranks());
  }

  /// Whether it was set; false for an op that is no receive.
  bool test(std::uint32_t index, op_id id, flag which) const {
    const field& it = fields_[id];
    return it.has_flags && (word(index, it) >> it.place % 64 & which) != 0;
  }
  void set(std::uint32_t index, op_id id, flag which) {
    const field& it = fields_[id];
    if (it.has_flags) word(index, it) |= static_cast<std::uint64_t>(which) << it.place % 64;
  }
  /// One more token. Answers how many there are, or a number above what the op needs.
  std::uint32_t add_token(std::uint32_t index, op_id id) {
    const field& it = fields_[id];
    std::uint64_t& bits = word(index, it);
    const std::uint32_t shift = it.place % 64 + (it.has_flags ? k_flags : 0);
    const std::uint64_t most = (std::uint64_t{1} << it.tokens) - 1, tokens = bits >> shift & most;
    if (tokens == most) return k_none;
    bits += std::uint64_t{1} << shift;
    return static_cast<std::uint32_t>(tokens) + 1;
  }
  const void* first_word(std::uint32_t index) const { return bits_.data() + index * words_; }
  std::size_t memory() const { return fields_.capacity() * sizeof(field) + bits_.capacity() * sizeof(bits_[0]); }

 private:
  static constexpr std::uint32_t k_flags = 4;
  struct field {
    std::uint32_t place = 0;
    std::uint8_t tokens = 0;  ///< bits
    bool has_flags = false;
  };
  std::uint64_t& word(std::uint32_t index, const field& it) { return bits_[index * words_ + it.place / 64]; }
  std::uint64_t word(std::uint32_t index, const field& it) const { return bits_[index * words_ + it.place / 64]; }

  std::vector<field> fields_;
  std::size_t words_ = 0;  ///< of a rank
  std::vector<std::uint64_t> bits_;
};

template <class Time, class Code, bool SharesNics>
class world_engine {
 public:
  world_engine(const packed_world& world, const simulation& what, simulation_record* record, picoseconds width)
      : world_(world),
        what_(what),
        record_(record),
        is_foreign_(what.where.rules == semantics::loggopsim),
        is_silent_(what.noise.is_silent()),
        starts_(what.skew, world.size(), what.instance),
        sharing_(what.where.sharing_level()),
        code_(world, width),
        calendar_(world.size(), width, SharesNics ? what.where.levels[sharing_].ranks : 1, code_),
        ranks_(static_cast<std::size_t>(world.size())) {
    for (const packed_shape& it : world.shapes()) states_.emplace_back(it);
    if (SharesNics) nics_.resize(at((world.size() - 1) / what.where.levels[sharing_].ranks) + 1);
    tabulate_costs();
  }

  result<simulation_report> run() {
    report_.finish.assign(ranks_.size(), 0);
    open_calls();
    sort_starts();
    for (rank r = 0; r < world_.size(); ++r)
      if (program(r).is_partial()) begin(r);  // a partial round is open before the rank calls
    while (!is_over() && fault_.empty()) {
      const std::int64_t window = next_window();
      push_starts(window);
      const auto& events = calendar_.take(window);
      for (std::size_t i = 0; i < events.size(); ++i) {
        if (i + k_ahead < events.size()) ask_for_memory(code_.who(events[i + k_ahead]));
        handle({code_.time(events[i], calendar_.begin_of(window)), code_.who(events[i]), code_.what(events[i])});
      }
      if (what_.progress && report_.messages >= told_ + k_telling) what_.progress(told_ = report_.messages);
    }
    return finish();
  }

 private:
  /// Something that happens at a rank.
  struct event {
    Time when{};
    rank who = 0;
    label what{};
    picoseconds instant() const { return instant_of(when); }
  };
  using state = rank_state<Time>;
  static constexpr std::size_t k_ahead = 12;  ///< events; how far memory is asked for in advance
  static constexpr std::uint64_t k_telling = 1 << 22;
  static constexpr std::size_t k_most_costs = 1024;

  static std::size_t at(rank r) { return static_cast<std::size_t>(r); }
  state& of(rank r) { return ranks_[at(r)]; }
  const packed_shape& program(rank r) const { return world_.shapes()[world_.member(r).shape]; }

  void ask_for_memory(rank r) {
    __builtin_prefetch(&of(r), 1);
    const auto [shape, index] = world_.member(r);
    __builtin_prefetch(states_[shape].first_word(index), 1);
  }

  /// As all ranks do in that round; but a scenario says who is drawn where it is one rank.
  void open_calls() {
    std::vector<rank> all(ranks_.size());
    std::iota(all.begin(), all.end(), 0);
    calls_ = round_calls(world_.starts(), world_.size());
    calls_.open(what_.instance, all);
    if (world_.starts().policy == activation_policy::majority) calls_.appoint(what_.initiator);
  }

  // --- starts: they enter the calendar when their window comes -----------------------------------------------

  /// Nothing is kept if the order is that of the ranks.
  void sort_starts() {
    next_start_ = starts_(0);
    bool is_sorted = true;
    for (rank r = 1; r < world_.size() && is_sorted; ++r) is_sorted = starts_(r) >= starts_(r - 1);
    if (is_sorted) return;
    std::vector<std::pair<picoseconds, rank>> entries;
    entries.reserve(ranks_.size());
    for (rank r = 0; r < world_.size(); ++r) entries.emplace_back(starts_(r), r);
    std::sort(entries.begin(), entries.end());
    order_.reserve(entries.size());
    for (const auto& [time, r] : entries) order_.push_back(r);
    next_start_ = entries.front().first;
  }

  rank next_starter() const { return order_.empty() ? started_ : order_[at(started_)]; }
  bool is_over() const { return started_ == world_.size() && calendar_.is_empty(); }

  std::int64_t next_window() const {
    if (started_ == world_.size()) return calendar_.first_window();
    const std::int64_t start = calendar_.window_of(next_start_);
    return calendar_.is_empty() ? start : std::min(start, calendar_.first_window());
  }

  void push_starts(std::int64_t window) {
    while (started_ < world_.size() && calendar_.window_of(next_start_) == window) {
      const rank who = next_starter();
      push({at_instant<Time>(next_start_), who, {event_kind::start}});
      if (++started_ < world_.size()) next_start_ = starts_(next_starter());
    }
  }

  // --- a rank ------------------------------------------------------------------------------------------------

  /// How the round player sees a rank: ops are carried out at once, by its CPU, first come, first served.
  struct interpreter {
    using number = op_id;
    world_engine& in;
    const rank self;
    const packed_world::membership place;
    const packed_shape& shape;
    packed_state& bits;
    state& me;

    interpreter(world_engine& engine, rank r)
        : in(engine),
          self(r),
          place(engine.world_.member(r)),
          shape(engine.world_.shapes()[place.shape]),
          bits(engine.states_[place.shape]),
          me(engine.of(r)) {}

    const packed_op& packed(op_id id) const { return shape.ops()[id]; }
    op at(op_id id) const {
      const packed_op& it = packed(id);
      op what{.kind = it.kind, .guard = static_cast<std::uint8_t>(it.guard & 0x7f), .need = it.need};
      if (is_communication(it.kind)) what.peer = in.world_.peer_of(shape, it, self, place.index);
      what.tag = packed_world::tag_of(shape, it, place.index);
      return what;
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
    void add_outstanding(op_id, int by) { me.outstanding = (me.outstanding + static_cast<unsigned>(by)) & 0x3fffffff; }
    void exited(op_id) { me.has_exited = true; }
    void enqueue(op_id id) { in.ready_.push_back(id); }

    const guard* guard_of(op_id, const op& what) const { return shape.guard_of(what); }
    round_no round() const { return in.what_.instance; }
    /// Lists that are typically empty are.
    std::uint64_t items_of(op_id id, const op&) const { return is_signal(packed(id).kind) ? 0 : bytes_at(id); }
    const round_calls& calls() const { return in.calls_; }
    static const std::vector<rank>* present() { return nullptr; }
    round_no listen(op_id id, const op&) const { return test(id, packed_state::arrived) ? round() : 0; }

    std::uint32_t size_at(op_id id) const { return packed_world::size_number_of(shape, packed(id), place.index); }
    std::uint64_t bytes_at(op_id id) const { return in.world_.bytes_of(size_at(id)); }

    const message_cost& cost_of(op_id id, const op& what) const {
      const std::size_t level = is_communication(what.kind) ? in.what_.where.level_of(self, what.peer) : 0;
      return in.cost(size_at(id), level);
    }
    bool is_eager(const op& what, const message_cost& cost) const {
      return cost.is_eager || in.is_foreign_ || is_signal(what.kind);
    }
    picoseconds noise(op_id id, const Time& begin, picoseconds cost) const {
      if (in.is_silent_) return 0;
      return delay_of(in.what_.noise, self, in.what_.instance, id, instant_of(begin), cost);
    }

    // --- carrying out

    template <class Work>
    outcome carry_out(op_id id, const op& what, const Work& work) {
      const picoseconds begin = instant_of(me.cpu);
      const bool is_over = work();
      if (in.is_recorded(self)) record(id, what, what.kind, begin);
      return is_over ? outcome::done : outcome::pending;
    }
    void record(op_id id, const op& what, op_kind kind, picoseconds begin, bool is_void = false) {
      in.record_->ops.push_back({self, id, kind, what.peer, what.tag, begin, instant_of(me.cpu), is_void});
    }
    outcome nop(op_id id, const op& what) {
      return carry_out(id, what, [] { return true; });
    }
    outcome pass_over(op_id id, const op& what) {
      if (in.is_recorded(self)) record(id, what, op_kind::nop, instant_of(me.cpu), true);
      return outcome::done;
    }
    outcome signal(op_id id, const op& what) { return send(id, what); }
    /// Done if the buffer is free at once.
    outcome send(op_id id, const op& what) {
      return carry_out(id, what, [&] {
        const message_cost& paid = cost_of(id, what);
        const bool is_short = is_eager(what, paid);
        const disturbance met =
            in.is_silent_ ? disturbance{}
                          : disturbance_of(in.what_.noise, self, in.what_.instance, id, instant_of(me.cpu), paid);
        Time& nic = in.nic_out(self, what.peer);
        const Time arrives = !is_short                                      ? announce(me.cpu, paid, met)
                             : in.is_foreign_ && what.kind == op_kind::send ? send_blocking(me.cpu, nic, paid, met)
                                                                            : send_eagerly(me.cpu, nic, paid, met);
        in.post(self, what, arrives, is_short ? event_kind::data : event_kind::request, bytes_at(id));
        return is_short;
      });
    }
    outcome receive(op_id id, const op& what) {
      if (test(id, packed_state::arrived))
        return carry_out(id, what, [&] { return in.is_foreign_ || charge_cpu(id, cost_of(id, what).receiver); });
      if (test(id, packed_state::announced)) ask_for(id, what);
      return outcome::pending;
    }
    outcome take_signal(op_id id, const op& what) {
      return carry_out(id, what, [&] { return is_call(what, self) || charge_cpu(id, cost_of(id, what).receiver); });
    }
    outcome compute(op_id id, const op& what) {
      return carry_out(id, what, [&] { return charge_cpu(id, cost_of(id, what).combination); });
    }
    outcome capture(op_id id, const op& what) {
      return carry_out(id, what, [&] {
        if (in.starts_(self) <= instant_of(me.cpu)) ++in.report_.active;
        return true;
      });
    }

    /// True, as what takes time of the CPU only is complete then.
    bool charge_cpu(op_id id, const charge& cost) {
      me.cpu = me.cpu + cost + lost(noise(id, me.cpu, cost.time));
      return true;
    }

    /// A receive whose message has been announced: its sender may move it.
    void ask_for(op_id id, const op& what) {
      const message_cost& paid = cost_of(id, what);
      const Time granted = grant(me.cpu, paid, in.is_silent_ ? 0 : drag_of(in.what_.noise, self, paid.overhead.time));
      in.push(what.peer, op_kind::send, self, what.tag, granted, event_kind::grant);
    }
  };

  void begin(rank r) {
    interpreter me(*this, r);
    round_player(me).begin(me.shape.roots());
    work(me);
  }

  /// Carries out what is ready, first come, first served.
  void work(interpreter& me) {
    for (std::size_t i = 0; i < ready_.size(); ++i) {
      const op_id id = ready_[i];
      if (me.test(id, packed_state::done)) continue;
      go_on(me, id);
      end_if_over(me, me.me.cpu);
    }
    ready_.clear();
  }

  /// An op that has its tokens, or that has fired and what it waited for has come.
  void go_on(interpreter& me, op_id id) {
    round_player player(me);
    if (!me.test(id, packed_state::fired)) {
      me.set(id, packed_state::fired);
      return player.fire(id);
    }
    const op what = me.at(id);
    if (what.kind == op_kind::signal_recv) return player.hear(id);
    if (me.receive(id, what) == outcome::done) player.finish(id);
  }

  void end_if_over(interpreter& me, const Time& time) {
    if (me.me.has_ended || !round_player<interpreter>::is_over(me.me.has_exited, me.me.outstanding)) return;
    me.me.has_ended = true;
    report_.finish[at(me.self)] = instant_of(time);
    last_ = later(last_, time);
  }

  bool is_recorded(rank r) const { return record_ != nullptr && r < record_->ranks; }

  // --- events ------------------------------------------------------------------------------------------------

  void handle(const event& it) {
    interpreter me(*this, it.who);
    end_sends(me, it.instant());
    switch (it.what.kind) {
      case event_kind::start: return start(me, it.when);
      case event_kind::signal:
      case event_kind::data: return arrive(me, it);
      case event_kind::request: return go_on_with(me, it, it.when, packed_state::announced);
      case event_kind::grant: return move(me, it);
      case event_kind::moved: return;  // end_sends has done it
    }
  }

  void start(interpreter& me, const Time& time) {
    if (!me.shape.is_partial()) {
      me.me.cpu = later(me.me.cpu, time);
      ++report_.active;
      round_player(me).begin(me.shape.roots());
      return work(me);
    }
    if (me.me.has_ended) return;
    for (op_id id = 0; id < me.shape.ops().size(); ++id) {
      if (me.packed(id).kind != op_kind::signal_recv) continue;
      const op what = me.at(id);
      if (!is_call(what, me.self) || !calls_.counts(me.self, what.tag, nullptr)) continue;
      me.me.cpu = later(me.me.cpu, time);
      me.set(id, packed_state::arrived);
      if (me.test(id, packed_state::fired)) ready_.push_back(id);
    }
    work(me);
  }

  void arrive(interpreter& me, const event& it) {
    const op what = me.at(it.what.op);
    const message_cost& paid = me.cost_of(it.what.op, what);
    Time& nic = nic_in(it.who, what.peer);
    Time in = it.when;
    if (is_foreign_ && it.what.kind == event_kind::data) {
      receive_blocking(me.me.cpu, nic, it.when, paid,
                       [&](const Time& begin) { return me.noise(it.what.op, begin, paid.receiver.time); });
    } else {
      in = take_in(nic, it.when, paid);
      if (instant_of(in) > it.instant()) ++report_.nic_waits;
    }
    go_on_with(me, it, in, packed_state::arrived);
  }

  /// If the receive is all that its message, or the announcement of it, has been waiting for.
  void go_on_with(interpreter& me, const event& it, const Time& time, packed_state::flag now) {
    me.set(it.what.op, now);
    if (!me.test(it.what.op, packed_state::fired)) return;
    me.me.cpu = later(me.me.cpu, time);
    ready_.push_back(it.what.op);
    work(me);
  }

  /// At the sender of a rendezvous: its NIC does the rest.
  void move(interpreter& me, const event& it) {
    const op what = me.at(it.what.op);
    Time& nic = nic_out(it.who, what.peer);
    const Time arrives = move_data(nic, it.when, me.cost_of(it.what.op, what));
    leave(me.me, nic, it.what.op);
    push({nic, it.who, {event_kind::moved}});
    push(what.peer, op_kind::recv, it.who, what.tag, arrives, event_kind::data);
  }

  /// What a send sets off at the other end.
  void post(rank from, const op& what, const Time& arrives, event_kind kind, std::uint64_t bytes) {
    if (what.kind == op_kind::signal_send) {
      ++report_.signals;
      return push(what.peer, op_kind::signal_recv, from, what.tag, arrives, event_kind::signal);
    }
    ++report_.messages;
    add_bytes(report_.bytes, bytes);
    push(what.peer, op_kind::recv, from, what.tag, arrives, kind);
  }

  void push(const event& it) { calendar_.push(it.instant(), code_.pack(it.when, it.who, it.what)); }

  /// An event for the op of rank `who` that does `what` with `by` under that tag.
  void push(rank who, op_kind what, rank by, std::uint32_t tag, const Time& when, event_kind kind) {
    const op_id id = world_.find(who, what, by, tag);
    if (id == k_no_op) {
      fault_ = "rank " + std::to_string(who) + " does not receive tag " + std::to_string(tag) + " of rank " +
               std::to_string(by);
      return;
    }
    push({when, who, {kind, id}});
  }

  // --- NICs --------------------------------------------------------------------------------------------------

  /// The NIC that rank r uses for its messages with `peer`: its group's for those outside, else its own.
  Time& nic_out(rank r, rank peer) {
    if constexpr (SharesNics)
      if (what_.where.level_of(r, peer) > sharing_) return nic_of(r).sends_from;
    return of(r).sends_from;
  }
  Time& nic_in(rank r, rank peer) {
    if constexpr (SharesNics)
      if (what_.where.level_of(r, peer) > sharing_) return nic_of(r).received;
    return of(r).received;
  }
  shared_nic<Time>& nic_of(rank r) { return nics_[at(r / what_.where.levels[sharing_].ranks)]; }

  /// A rendezvous whose bytes leave; the send ends with that.
  struct departure {
    Time end{};
    op_id send = k_no_op;
    std::uint32_t next = k_none;  ///< of the same rank, later; or the next free one
  };

  void leave(state& me, const Time& end, op_id send) {
    std::uint32_t place = free_;
    if (place == k_none) {
      place = static_cast<std::uint32_t>(departures_.size());
      departures_.emplace_back();
    } else {
      free_ = departures_[place].next;
    }
    std::uint32_t* before = &me.leaving;
    while (*before != k_none && instant_of(departures_[*before].end) <= instant_of(end))
      before = &departures_[*before].next;
    departures_[place] = {end, send, *before};
    *before = place;
  }

  /// Those whose bytes have left by now. Asked before anything else happens at the rank: what ends inside a window that
  /// is being handled is then never late.
  void end_sends(interpreter& me, picoseconds now) {
    while (me.me.leaving != k_none && instant_of(departures_[me.me.leaving].end) <= now) {
      const auto [end, send, next] = departures_[me.me.leaving];
      departures_[me.me.leaving].next = free_;
      free_ = std::exchange(me.me.leaving, next);
      round_player(me).finish(send);
      end_if_over(me, end);
      if (ready_.empty()) continue;
      me.me.cpu = later(me.me.cpu, end);
      work(me);
    }
  }

  // --- costs -------------------------------------------------------------------------------------------------

  void tabulate_costs() {
    const std::size_t levels = what_.where.levels.size();
    if (world_.size_count() * levels > k_most_costs) return;
    for (std::uint32_t size = 0; size < world_.size_count(); ++size)
      for (std::size_t level = 0; level < levels; ++level)
        costs_.push_back(lsched::cost_of(what_.where, level, world_.bytes_of(size)));
  }

  /// Valid until asked for the next.
  const message_cost& cost(std::uint32_t size_number, std::size_t level) {
    if (!costs_.empty()) return costs_[size_number * what_.where.levels.size() + level];
    return one_cost_ = lsched::cost_of(what_.where, level, world_.bytes_of(size_number));
  }

  // --- the end -----------------------------------------------------------------------------------------------

  result<simulation_report> finish() {
    if (!fault_.empty()) return failure{status::unmatched, fault_};
    for (rank r = 0; r < world_.size(); ++r)
      if (!of(r).has_ended) return stuck(r);
    report_.engine = "events";
    report_.memory = world_.memory() + calendar_.memory() + ranks_.capacity() * sizeof(state) +
                     nics_.capacity() * sizeof(shared_nic<Time>) + order_.capacity() * sizeof(rank) +
                     departures_.capacity() * sizeof(departure) + costs_.capacity() * sizeof(message_cost) +
                     report_.finish.capacity() * sizeof(picoseconds);
    for (const packed_state& it : states_) report_.memory += it.memory();
    if constexpr (std::is_same_v<Time, traced_time>) report_.critical_path = last_.parts;
    return checked(std::move(report_));
  }

  failure stuck(rank r) {
    const interpreter me(*this, r);
    for (op_id id = 0; id < me.shape.ops().size(); ++id) {
      if (!me.test(id, packed_state::fired) || me.test(id, packed_state::done) || me.packed(id).kind != op_kind::recv)
        continue;
      return {status::state,
              "rank " + std::to_string(r) + " waits forever for a message of rank " + std::to_string(me.at(id).peer), r,
              id};
    }
    return {status::state, "rank " + std::to_string(r) + " never reaches its exit", r};
  }

  const packed_world& world_;
  const simulation& what_;
  simulation_record* record_;
  const bool is_foreign_, is_silent_;
  const start_times starts_;
  const std::size_t sharing_;  ///< the level whose groups share a NIC
  const Code code_;
  calendar<Code, SharesNics> calendar_;
  std::vector<state> ranks_;
  std::vector<packed_state> states_;  ///< by shape
  std::vector<shared_nic<Time>> nics_;
  std::vector<departure> departures_;
  std::uint32_t free_ = k_none;
  std::vector<op_id> ready_;  ///< of the rank that is at work
  round_calls calls_;
  std::vector<rank> order_;  ///< of starts
  rank started_ = 0;
  picoseconds next_start_ = 0;
  std::vector<message_cost> costs_;  ///< by size, then level
  message_cost one_cost_;
  std::string fault_;
  Time last_ = at_instant<Time>(0);
  std::uint64_t told_ = 0;
  simulation_report report_;
};

template <class Time, class Code>
result<simulation_report> run(const packed_world& ranks, const simulation& what, simulation_record* record,
                              picoseconds width) {
  return what.where.shares_nics() ? world_engine<Time, Code, true>(ranks, what, record, width).run()
                                  : world_engine<Time, Code, false>(ranks, what, record, width).run();
}

result<simulation_report> run(const packed_world& ranks, const simulation& what, simulation_record* record, bool trace,
                              picoseconds width) {
  if (trace) return run<traced_time, wide_code<traced_time>>(ranks, what, record, width);
  return narrow_code::is_possible(ranks, width) ? run<picoseconds, narrow_code>(ranks, what, record, width)
                                                : run<picoseconds, wide_code<picoseconds>>(ranks, what, record, width);
}

}  // namespace

result<simulation_report> simulate_schedules(const packed_world& ranks, const simulation& what,
                                             simulation_record* record, bool trace) {
  const picoseconds width = lookahead(what.where, ranks.longest_message(), what.noise.pace);
  if (width <= 0)
    return failure{status::argument, "a message takes no time: L + o (L alone beyond S) must be positive"};
  const start_times starts(what.skew, ranks.size(), what.instance);
  if (auto why = objection_to(starts, ranks.size(), k_forever)) return std::move(*why);

  const auto begin = std::chrono::steady_clock::now();
  auto report = run(ranks, what, record, trace, width);
  if (report) report->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

result<simulation_report> simulate_schedules(std::span<const schedule_ptr> ranks, const simulation& what,
                                             simulation_record* record, bool trace) {
  const auto packed = packed_world::of(ranks);
  if (!packed) return packed.error();
  return simulate_schedules(*packed, what, record, trace);
}

}  // namespace lsched
