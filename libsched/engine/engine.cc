#include "libsched/engine/engine.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace lsched {
namespace {

/// What is noted of an op, or with k_no_op of the round; a time of 0 is not known here.
trace_event event_of(const instance& it, op_id id, std::uint64_t begin_ns, std::uint64_t end_ns) {
  trace_event news{.begin_ns = begin_ns,
                   .end_ns = end_ns,
                   .round = it.round,
                   .schedule = it.id,
                   .who = it.program->place().self,
                   .op = id};
  if (id == k_no_op) return news;
  const op& what = it.program->ops()[id];
  news.peer = what.peer;
  news.tag = what.tag;
  news.kind = what.kind;
  return news;
}

}  // namespace

/// Ops are carried out as they fire, in the order in which they got their tokens.
struct engine::interpreter {
  using number = op_id;
  engine& in;
  instance& it;

  const op& at(op_id id) const { return it.program->ops()[id]; }
  std::uint32_t need(op_id id) const { return at(id).need; }
  std::span<const op_id> successors(op_id id) const { return it.program->successors(id); }
  bool is_exit(op_id id) const { return id == it.program->exit(); }
  rank rank_of(op_id) const { return it.program->place().self; }

  std::uint32_t add_token(op_id id, op_id) const { return it.counts[id].add(it.round); }
  void mark(op_id id) const { it.completed[id] = it.round; }
  void add_outstanding(op_id, int by) const {
    it.outstanding += static_cast<std::uint32_t>(by);
    in.outstanding_ += static_cast<std::uint64_t>(std::int64_t{by});
  }
  void exited(op_id) const { it.exited = true; }
  void enqueue(op_id id) const { it.ready[it.ready_tail++] = id; }

  const guard* guard_of(op_id, const op& what) const { return it.program->guard_of(what); }
  round_no round() const { return it.round; }
  std::uint64_t items_of(op_id, const op& what) const {
    return run_of(it, what.a.exists() ? what.a : what.c, what.count).count;
  }
  const round_calls& calls() const { return it.whose; }
  const std::vector<rank>* present() const { return &it.present; }
  round_no listen(op_id id, const op& what) const {
    if (is_call(what, rank_of(id))) return it.called.load();
    return in.net_.arm(it.links[id], it.round) ? it.round : 0;
  }

  static outcome nop(op_id, const op&) { return outcome::done; }
  static outcome take_signal(op_id, const op&) { return outcome::done; }
  outcome signal(op_id id, const op&) const {
    ++in.counters_.signals_sent;
    in.net_.signal(it.links[id], it.round);
    return outcome::done;
  }
  outcome send(op_id id, const op& what) const { return in.send(it, id, what); }
  outcome receive(op_id id, const op& what) const { return in.receive(it, id, what); }
  outcome compute(op_id id, const op& what) const { return in.compute(it, id, what); }
  outcome capture(op_id id, const op& what) const { return in.capture(it, id, what); }
  outcome pass_over(op_id id, const op& what) const { return in.pass_over(it, id, what); }
};

engine::engine(endpoint& net, lane* beside)
    : net_(net),
      lane_(beside),
      long_bytes_(beside == nullptr ? k_long_bytes : std::min(k_long_bytes, beside->least_bytes())) {}

engine::~engine() {
  if (jobs_ != 0) lane_->drain();
  for (auto& it : instances_)
    if (it != nullptr) {
      net_.detach(it->id);  // a transport may copy unread messages out of the memory here
      release_memory(*it);
    }
}

// --- the step -------------------------------------------------------------------------------------------------------

void engine::post(instance& it) {
  if (it.posted.exchange(true)) return;  // linked in already: the owner will look after that
  instance* head = posted_.load();
  do {
    it.next_posted = head;
  } while (!posted_.compare_exchange_weak(head, &it));
}

bool engine::step() {
  ++counters_.steps;
  bool moved = drain_mailbox();
  moved = poll_endpoint() || moved;
  moved = poll_lane() || moved;
  net_.flush();
  return moved || (jobs_ != 0 && lane_->help());
}

bool engine::drain_mailbox() {
  if (posted_.load() == nullptr) return false;
  instance* it = posted_.exchange(nullptr);
  const bool any = it != nullptr;
  while (it != nullptr) {
    instance* next = it->next_posted;
    it->posted.store(false);  // before looking: a post from now on links it in again
    look(*it);
    advance(*it);
    it = next;
  }
  return any;
}

bool engine::poll_endpoint() {
  const std::size_t count = net_.poll(news_);
  for (std::size_t i = 0; i < count; ++i) {
    const completion& news = news_[i];
    instance* it = instances_[news.cookie >> 32].get();
    const auto id = static_cast<op_id>(news.cookie);
    if (it == nullptr) continue;
    if (it->phase == phase::closing && news.round == k_last_round) {
      last_signal_seen(*it);
      continue;
    }
    if (it->phase != phase::running || news.round != it->round) continue;  // armed for a round that is over
    const op& what = it->program->ops()[id];
    interpreter me{*this, *it};
    round_player player(me);
    if (what.kind == op_kind::signal_recv)
      player.hear(id, news.round);
    else if (what.kind != op_kind::recv || arrived(*it, id, what, news.what) == outcome::done)
      player.finish(id);
    if (trace_ != nullptr) note_end(*it, id);
    advance(*it);
  }
  return count != 0;
}

bool engine::poll_lane() {
  if (jobs_ == 0) return false;
  std::array<std::uint64_t, 16> ended;
  const std::size_t count = lane_->poll(ended);
  for (std::size_t i = 0; i < count; ++i) {
    instance& it = *instances_[ended[i] >> 32];  // remove() waits for its jobs
    const auto id = static_cast<op_id>(ended[i]);
    --it.jobs, --jobs_;
    if (it.phase == phase::running) {
      combined(it, it.program->ops()[id]);
      interpreter me{*this, it};
      round_player(me).finish(id);
      if (trace_ != nullptr) note_end(it, id);
      advance(it);
    } else {
      --it.outstanding, --outstanding_;
      if (it.jobs == 0) publish_failure(it);
    }
  }
  return count != 0;
}

// The application may have called since.
void engine::look(instance& it) {
  if (it.phase == phase::idle && satisfies(it.called.load(), it.round + 1)) begin_round(it);
  interpreter me{*this, it};
  for (const op_id call : it.calls) {
    const bool is_armed = it.completed[call] != it.round && is_enabled(it.counts[call].in(it.round), me.need(call));
    if (it.phase != phase::running || !is_armed) continue;
    round_player(me).hear(call);
    if (trace_ != nullptr && it.completed[call] == it.round) note_end(it, call);
  }
}

// Runs the instance until it has to wait. A finished round of a partial instance opens the next.
void engine::advance(instance& it) {
  const bool is_noted = trace_ != nullptr;  // in a register: the loop is the fastest path there is
  interpreter me{*this, it};
  round_player player(me);
  for (;;) {
    while (it.ready_head != it.ready_tail) {
      const op_id id = it.ready[it.ready_head++];
      const std::uint64_t begin_ns = is_noted ? trace_buffer::now_ns() : 0;
      ++counters_.ops;
      player.fire(id);
      if (is_noted) note_firing(it, id, begin_ns);
      if (it.phase != phase::running) return;
    }
    if (it.phase != phase::running || !player.is_over(it.exited, it.outstanding)) return;
    end_round(it);
    if (!it.program->is_partial() || it.phase != phase::idle) return;
    begin_round(it);
  }
}

void engine::begin_round(instance& it) {
  ++it.round;
  it.phase = phase::running;
  it.exited = false;
  it.outstanding = 0;
  it.ready_head = it.ready_tail = 0;
  if (it.results != nullptr) {
    std::ranges::fill(it.segment_states, segment_state{.null = true});
    it.whose.open(it.round, it.present);
    it.cells[it.output_buffer].home = it.results->writing();
  }
  if (!it.lengths.empty() && !take_lengths(it)) return;
  interpreter me{*this, it};
  round_player(me).begin(it.program->roots());
  if (trace_ != nullptr) trace_->note(event_of(it, k_no_op, trace_buffer::now_ns(), 0));
}

void engine::end_round(instance& it) {
  ++counters_.rounds;
  if (trace_ != nullptr) note_end(it, k_no_op);
  it.phase = phase::idle;
  if (it.results != nullptr) {
    const auto [in_it, is_null] = segment_state_of_result(it);
    const auto [data, mine, since] = it.captured ? it.offers->at(*it.captured) : contribution::pending{};
    const delivered what{.from = it.round - 1,
                         .to = it.round,
                         .contributors = in_it.contributors,
                         .last_offers = in_it.offers,
                         .offers = in_it.offers,
                         .in_result = in_it.contributors,
                         .mine = mine,
                         .staleness = mine == 0 || since >= it.round ? 0 : it.round - since,
                         .null = is_null};
    it.results->publish(it.cells[it.output_buffer].home, what);
    it.stats->finish(what, trace_buffer::now_ns());
    if (it.captured) it.offers->done(*std::exchange(it.captured, std::nullopt));
    if (in_it.leaver != k_no_rank) std::erase(it.present, in_it.leaver);
  } else {
    for (const op_id id : it.signal_receives)
      if (it.completed[id] != it.round) net_.disarm(it.links[id]);
  }
  if (!it.lengths.empty()) give_lengths(it);
  it.finished.store(it.round);
  published_ = true;
  if (it.present.empty()) begin_closing(it);
}

// --- firing ---------------------------------------------------------------------------------------------------------

// What is read as one is null as one, so its first segment speaks for all of it (segments.h).
segment_state engine::segment_state_of(const instance& it, segment_range op_segments::*operand, op_id id) {
  if (it.segment_states.empty()) return {};
  const segment_range segments = it.segments.of(id).*operand;
  return segments.size() == 0 ? segment_state{.null = true} : it.segment_states[segments.first];
}

void engine::set_segment_state(instance& it, op_id id, const segment_state& now) {
  if (it.segment_states.empty()) return;
  const segment_range segments = it.segments.of(id).c;
  std::fill(it.segment_states.begin() + segments.first, it.segment_states.begin() + segments.end, now);
}

outcome engine::send(instance& it, op_id id, const op& what) {
  const cell& source = it.cells[what.a.buffer()];
  const item_run items = run_of(it, what.a, what.count);
  const std::uint64_t bytes = items.count * size_of(what.type);
  const auto [tally, is_null] = segment_state_of(it, &op_segments::a, id);
  ++counters_.messages_sent;
  is_null ? ++counters_.nulls_sent : counters_.bytes_sent += bytes;
  if (it.stats != nullptr) it.stats->sent(bytes, is_null);
  ++it.moved[what.a.buffer()].messages_sent;
  it.moved[what.a.buffer()].bytes_sent += is_null ? 0 : bytes;
  const message letter{is_null ? nullptr : source.data + items.begin * size_of(what.type), is_null ? 0 : bytes, tally,
                       is_null};
  return net_.send(it.links[id], it.round, letter) ? outcome::done : outcome::pending;
}

outcome engine::receive(instance& it, op_id id, const op& what) {
  const cell& target = it.cells[what.c.buffer()];
  const std::uint64_t begin = run_of(it, what.c, what.count).begin;
  std::byte* into = target.home == nullptr ? nullptr : target.home + begin * size_of(what.type);
  arrival news;
  return net_.receive(it.links[id], it.round, into, news) ? arrived(it, id, what, news) : outcome::pending;
}

outcome engine::arrived(instance& it, op_id id, const op& what, const arrival& news) {
  cell& target = it.cells[what.c.buffer()];
  ++it.moved[what.c.buffer()].messages_received;
  it.moved[what.c.buffer()].bytes_received += news.bytes;
  set_segment_state(it, id, {news.tally, news.null});
  it.held[id] = !news.null && what.in_place && net_.receives_in_place() ? it.payloads[id].readers : 0;
  if (!news.null) target.data = it.held[id] != 0 ? news.data : target.home;
  if (!it.lists.empty() && it.lists[what.c.buffer()] && !note_lengths(it, what, news.bytes)) return outcome::failed;
  if (it.held[id] != 0 && !it.program->is_holding()) take_home(it, id, what);
  return outcome::done;
}

// The payload lies where the sender has it, and the sender waits until it is released. If its reader cannot fire with
// the receive's token, what the reader still waits for may in turn wait for that sender: so the payload is copied and
// released. So it is where there are several readers, of whom one may wait for another.
void engine::take_home(instance& it, op_id id, const op& what) {
  const auto [reader, readers] = it.payloads[id];
  if (readers == 1 && is_enabled(it.counts[reader].in(it.round) + 1, it.program->ops()[reader].need)) return;
  cell& target = it.cells[what.c.buffer()];
  if (const std::uint64_t bytes = run_of(it, what.c, what.count).count * size_of(what.type); bytes > 0)
    std::memcpy(target.home, target.data, bytes);
  target.data = target.home;
  it.held[id] = 1;
  release_payload(it, id);
}

outcome engine::compute(instance& it, op_id id, const op& what) {
  const bound_kernel& mine = it.kernels[id];
  if (mine.way == compute_way::function) return call_function(it, id, what);
  if (mine.way == compute_way::lists) return compute_lists(it, id, what);
  const std::size_t width = size_of(what.type);
  const auto operand = [&](region part, std::size_t bytes) {
    return part.exists() ? it.cells[part.buffer()].data + part.offset() * bytes : nullptr;
  };
  null_operands null;
  if (!it.segment_states.empty()) null = settle_nulls(it, id, what);
  if (null.is_settled) return released(it, what);
  if (mine.run == nullptr) {
    select(it, what, what.a, what.releases_a, may_swap(it, id).of_a);
    return released(it, what);
  }
  const kernel_call call{.a = null.a ? nullptr : operand(what.a, width),
                         .b = null.b ? nullptr : operand(what.b, width),
                         .s = operand(what.s, sizeof(double)),
                         .c = it.cells[what.c.buffer()].home + what.c.offset() * mine.target_bytes,
                         .count = what.count,
                         .with = mine.with,
                         .user = &it.user};
  if (call.count * width >= long_bytes_ && is_taken_by_lane(it, id, what, call)) return outcome::pending;
  mine.run(call);
  return combined(it, what);
}

// In a partial schedule: notes who is in the result, and makes it where null operands spare the kernel's call.
engine::null_operands engine::settle_nulls(instance& it, op_id id, const op& what) {
  const bool is_binary = what.b.exists();
  const segment_state a = segment_state_of(it, &op_segments::a, id);
  const segment_state b = is_binary ? segment_state_of(it, &op_segments::b, id) : segment_state{.null = true};
  const bool lacks_one = a.null || (is_binary && b.null), lacks_all = a.null && b.null;
  const null_rule rule = it.kernels[id].null;
  if (rule == null_rule::present) {
    set_segment_state(it, id, {});
  } else {
    const bool is_null = rule == null_rule::keep ? lacks_one : lacks_all;
    set_segment_state(it, id, {merge(a.tally, b.tally), is_null});
    if (is_null) return {.is_settled = true};
  }
  if (lacks_one && rule == null_rule::either) {
    const buffer_swap may = may_swap(it, id);
    a.null ? select(it, what, what.b, what.releases_b, may.of_b) : select(it, what, what.a, what.releases_a, may.of_a);
    return {.is_settled = true};
  }
  return {.a = a.null, .b = b.null};
}

// Function outputs are never null; their contributors are those of operand b.
outcome engine::call_function(instance& it, op_id id, const op& what) {
  const auto source_of = [&](region at, segment_range op_segments::*operand) {
    if (!at.exists()) return function_input{};
    const buffer& under = it.program->buffers()[at.buffer()];
    const std::byte* const data = segment_state_of(it, operand, id).null ? nullptr : it.cells[at.buffer()].data;
    return function_input{data, under.count, lists_of(it, at), size_of(under.type)};
  };
  const function_input source = source_of(what.a, &op_segments::a), by = source_of(what.b, &op_segments::b);
  const function_output target{it.cells[what.c.buffer()].home, what.count, lists_of(it, what.c), size_of(what.type)};
  if (typical_bytes(*it.program, what) >= k_long_bytes) begin_long();
  const auto number = static_cast<std::uint32_t>(it.kernels[id].with->front().integer());
  const status verdict = it.local->call(number, it.round, source, by, target);
  if (verdict != status::ok) return fail(it, verdict, k_no_rank), outcome::failed;
  set_segment_state(it, id,
                    {.tally = what.b.exists() ? segment_state_of(it, &op_segments::b, id).tally : contributor_count{}});
  return combined(it, what);
}

buffer_swap engine::may_swap(const instance& it, op_id id) {
  return it.buffer_swaps.empty() ? buffer_swap{} : it.buffer_swaps[id];
}

// The owner is at work for a while. Nobody sleeps on what it has published; and who publishes something for it need not
// wake another thread, even if it was about to let go: it looks again first (offload/driver.h).
void engine::begin_long() {
  net_.flush();
  std::atomic<std::uint32_t>& polling = net_.bell().polling;
  if (polling.load() == 0) polling.store(1);
}

// Arithmetic that takes long: nobody sleeps on what was published before, and the lane may have it. The application's
// own arithmetic stays on one thread, as it was promised.
bool engine::is_taken_by_lane(instance& it, op_id id, const op& what, const kernel_call& call) {
  begin_long();
  const bound_kernel& mine = it.kernels[id];
  const std::size_t width = size_of(what.type);
  if (lane_ == nullptr || !mine.is_elementwise || call.count * width < lane_->least_bytes()) return false;
  if (!lane_->submit({.run = mine.run, .call = call, .element_bytes = width, .cookie = cookie_of(it, id)}))
    return false;
  ++counters_.lane_jobs;
  ++it.jobs, ++jobs_;
  return true;
}

// Both operands have been read for the last time.
outcome engine::combined(instance& it, const op& what) {
  cell& target = it.cells[what.c.buffer()];
  target.data = target.home;
  return released(it, what);
}

outcome engine::released(instance& it, const op& what) {
  release_payload(it, what.releases_a);
  release_payload(it, what.releases_b);
  return outcome::done;
}

// target = the one operand there is. In a partial schedule, where this happens whenever a contribution is null, the
// target takes over the operand's home, if it may, and leaves its own in exchange (buffer_swap.h). What was
// captured has no home and is written by nobody in a round: the target just lies there.
void engine::select(instance& it, const op& what, region from, op_id payload, bool may_swap) {
  cell& source = it.cells[from.buffer()];
  cell& target = it.cells[what.c.buffer()];
  const bool is_held = payload != k_no_op && it.held[payload] != 0;
  if (from == what.c && !is_held) return;
  if (may_swap && !is_held && target.exchangeable) {
    if (source.exchangeable && source.data == source.home) {
      std::swap(source.home, target.home);
      target.data = target.home;
      return;
    }
    if (source.data == it.cells[it.input_buffer].data && what.c.buffer() != it.output_buffer) {
      target.data = source.data;
      return;
    }
  }
  if (const std::uint64_t bytes = what.count * size_of(what.type); bytes > 0) {
    std::byte* const into = target.home + what.c.offset() * size_of(what.type);
    const std::byte* const data = source.data + from.offset() * size_of(what.type);
    if (bytes >= k_long_bytes) begin_long();
    if (into != data) std::memmove(into, data, bytes);
  }
  target.data = target.home;
}

void engine::release_payload(instance& it, op_id receive) {
  if (receive == k_no_op || it.held[receive] == 0) return;
  if (--it.held[receive] == 0) net_.release(it.links[receive], it.round);
}

// --- recording ------------------------------------------------------------------------------------------------------

void engine::record(trace_buffer* into) {
  trace_ = into;
  if (trace_ == nullptr) return;
  for (const auto& it : instances_)
    if (it != nullptr) trace_->set_name(it->id, it->label);
}

void engine::note_firing(const instance& it, op_id id, std::uint64_t begin_ns) {
  trace_->note(event_of(it, id, begin_ns, it.completed[id] == it.round ? trace_buffer::now_ns() : 0));
}

void engine::note_end(const instance& it, op_id id) { trace_->note(event_of(it, id, 0, trace_buffer::now_ns())); }

// --- failure --------------------------------------------------------------------------------------------------------

void engine::fail(instance& it, status why, rank culprit) {
  if (it.phase == phase::failed) return;
  it.phase = phase::failed;
  outstanding_ -= it.outstanding - it.jobs;
  it.outstanding = it.jobs;
  it.culprit.store(culprit);
  it.failed_with = why;
  if (it.jobs == 0) publish_failure(it);
}

// Whoever sees the verdict may free his buffers.
void engine::publish_failure(instance& it) {
  it.verdict.store(it.failed_with);
  published_ = true;
}

void engine::fail_all(status why, rank culprit) {
  for (auto& it : instances_)
    if (it != nullptr && it->phase != phase::closed) fail(*it, why, culprit);
}

}  // namespace lsched
