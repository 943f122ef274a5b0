#include "libsched/engine/engine.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "libsched/transport/no_cancellation.h"
#include "ops/float_mode.h"

namespace lsched {
namespace {

/// Returns the trace event of an op, or of the round if `id` is k_no_op. A time of 0 is unknown.
trace_event event_of(const instance& inst, op_id id, std::uint64_t begin_ns, std::uint64_t end_ns) {
  trace_event news{.begin_ns = begin_ns,
                   .end_ns = end_ns,
                   .round = inst.round,
                   .schedule = schedule_in_trace(inst.number_on_record),
                   .who = inst.members->home_of(inst.program->place().self),
                   .op = id};
  if (id == k_no_op) return news;
  const op& o = inst.program->ops()[id];
  news.peer = inst.members->home_of(o.peer);
  news.tag = o.tag;
  news.kind = o.kind;
  return news;
}

}  // namespace

/// Executes each op when it fires. Ops fire in the order in which they became ready.
struct engine::interpreter {
  using number = op_id;
  engine& in;
  instance& inst;

  const op& at(op_id id) const { return inst.program->ops()[id]; }
  std::uint32_t need(op_id id) const { return at(id).need; }
  std::span<const op_id> successors(op_id id) const { return inst.program->successors(id); }
  bool is_exit(op_id id) const { return id == inst.program->exit(); }
  rank rank_of(op_id) const { return inst.program->place().self; }

  std::uint32_t add_token(op_id id, op_id) const { return inst.counts[id].add(inst.round); }
  void mark(op_id id) const { inst.completed[id] = inst.round; }
  void add_outstanding(op_id, int by) const {
    inst.outstanding += static_cast<std::uint32_t>(by);
    in.outstanding_ += static_cast<std::uint64_t>(std::int64_t{by});
  }
  void exited(op_id) const { inst.exited = true; }
  void enqueue(op_id id) const { inst.ready[inst.ready_tail++] = id; }

  const guard* guard_of(op_id, const op& o) const { return inst.program->guard_of(o); }
  round_no round() const { return inst.round; }
  std::uint64_t items_of(op_id, const op& o) const {
    return run_of(inst.lists.get(), o.a.exists() ? o.a : o.c, o.count).count;
  }
  const round_calls& calls() const { return inst.partial->whose; }
  const std::vector<rank>* present() const { return &inst.present; }
  round_no listen(op_id id, const op& o) const {
    if (is_call(o, rank_of(id))) return is_engine_call(o) ? in.begin_grace(inst, o) : calls_heard(inst, o).load();
    return in.net_.arm(inst.links[id], inst.round) ? inst.round : 0;
  }

  static outcome nop(op_id, const op&) { return outcome::done; }
  static outcome take_signal(op_id, const op&) { return outcome::done; }
  outcome signal(op_id id, const op&) const {
    ++in.counters_.signals_sent;
    in.net_.signal(inst.links[id], inst.round);
    return outcome::done;
  }
  outcome send(op_id id, const op& o) const { return in.send(inst, id, o); }
  outcome receive(op_id id, const op& o) const { return in.receive(inst, id, o); }
  outcome compute(op_id id, const op& o) const { return in.compute(inst, id, o); }
  outcome capture(op_id id, const op& o) const { return capture_offers(inst, id, o), outcome::done; }
  outcome pass_over(op_id id, const op& o) const { return in.pass_over(inst, id, o); }
};

engine::engine(endpoint& net, lane* beside)
    : net_(net),
      lane_(beside),
      has_cancellation_points_(net.has_cancellation_points()),
      home_(std::make_shared<const membership>(net.place())),
      long_bytes_(beside == nullptr ? k_long_bytes : std::min(k_long_bytes, beside->least_bytes())) {}

engine::~engine() {
  if (jobs_ != device_jobs_) lane_->drain();
  if (device_jobs_ != 0) device_->drain();
  for (auto& inst : instances_)
    if (inst != nullptr) {
      net_.detach(inst->id);  // before release_memory(): the transport may copy unread messages from this memory
      release_memory(*inst);
    }
}

// --- the step -------------------------------------------------------------------------------------------------------

void engine::post(instance& inst) {
  if (inst.posted.exchange(true)) return;  // already in the list; the engine's owner clears the flag before look()
  instance* head = posted_.load();
  do {
    inst.next_posted = head;
  } while (!posted_.compare_exchange_weak(head, &inst));
}

bool engine::step() {
  const default_float_mode here;
  const no_cancellation during_step(has_cancellation_points_);
  ++counters_.steps;
  bool moved = drain_posts();
  moved = poll_endpoint() || moved;
  moved = poll_lane() || moved;
  if (!gated_.empty()) moved = poll_gates() || moved;
  if (!timed_.empty()) moved = poll_graces() || moved;
  if (is_any_read()) moved = poll_readers() || moved;
  if (!tasks_.empty()) moved = advance_tasks() || moved;
  net_.flush();
  return moved || (jobs_ != device_jobs_ && lane_->help());
}

bool engine::advance_tasks() {
  bool moved = false;
  for (std::size_t i = 0; i < tasks_.size(); ++i) moved = tasks_[i]->advance() || moved;  // tasks may add tasks
  std::erase_if(tasks_, [](const engine_task* one) { return one->is_over(); });
  std::erase_if(adopted_, [](const auto& one) { return one->is_over(); });
  return moved;
}

bool engine::drain_posts() {
  if (posted_.load() == nullptr) return false;
  instance* inst = posted_.exchange(nullptr);
  const bool any = inst != nullptr;
  while (inst != nullptr) {
    instance* next = inst->next_posted;
    inst->posted.store(false);  // before look(), so that a call of post() during look() adds the instance again
    look(*inst);
    advance(*inst);
    inst = next;
  }
  return any;
}

bool engine::poll_endpoint() {
  const std::size_t count = net_.poll(news_);
  for (std::size_t i = 0; i < count; ++i) {
    const completion& news = news_[i];
    if ((news.cookie & k_sink_cookie) != 0) {
      if (message_sink* const sink = sinks_[(news.cookie & ~k_sink_cookie) >> 32]) sink->arrived(news);
      continue;
    }
    instance* inst = instances_[news.cookie >> 32].get();
    const auto id = static_cast<op_id>(news.cookie);
    if (inst == nullptr) continue;
    if (inst->phase == phase::closing && news.round == k_last_round) {
      last_signal_seen(*inst);
      continue;
    }
    if (inst->phase != phase::running || news.round != inst->round) continue;  // a completion of an old round
    interpreter me{*this, *inst};
    round_player(me).resume(id, news.round, [&] { return arrived(*inst, id, me.at(id), news.what); });
    if (trace_ != nullptr) note_end(*inst, id);
    advance(*inst);
  }
  if (net_.has_bad_news()) take_bad_news();
  return count != 0 || net_.is_moving();
}

bool engine::poll_lane() {
  if (jobs_ == 0) return false;
  std::array<std::uint64_t, 16> ended;
  std::size_t count = jobs_ == device_jobs_ ? 0 : lane_->poll(ended);
  if (device_jobs_ != 0) count += poll_device(std::span(ended).subspan(count));
  for (std::size_t i = 0; i < count; ++i) {
    instance& inst = *instances_[ended[i] >> 32];  // not null, because an instance with jobs is not freed
    const auto id = static_cast<op_id>(ended[i]);
    --inst.jobs, --jobs_;
    if (inst.phase == phase::running && has_computed(inst, id)) {
      interpreter me{*this, inst};
      round_player(me).finish(id);
      if (trace_ != nullptr) note_end(inst, id);
      advance(inst);
    } else {
      --inst.outstanding, --outstanding_;
      if (inst.jobs == 0) end_of_jobs(inst);
    }
  }
  return count != 0;
}

// Returns true if an op has fired in the open round, or will fire when it gets `more` further tokens.
bool engine::has_fired(const instance& inst, op_id id, std::uint32_t more) {
  const std::uint32_t tokens = inst.counts[id].in(inst.round) + more;
  return round_player<interpreter>::has_fired(tokens, inst.program->ops()[id].need);
}

// Handles the calls that the application has made since the last call of look().
void engine::look(instance& inst) {
  const round_no called = inst.called.load();
  if (inst.entered != nullptr) inst.entered->store(counted(inst, called), std::memory_order_relaxed);
  if (inst.phase == phase::idle && round_player<interpreter>::may_begin(called, inst.round) && is_gate_open(inst))
    begin_round(inst);
  if (inst.partial == nullptr) return;
  interpreter me{*this, inst};
  for (const op_id call : inst.partial->calls) {
    const bool is_armed = inst.completed[call] != inst.round && has_fired(inst, call);
    if (inst.phase != phase::running || !is_armed) continue;
    round_player(me).hear(call);
    if (trace_ != nullptr && inst.completed[call] == inst.round) note_end(inst, call);
  }
}

// Completes the grace ops whose time has passed.
bool engine::poll_graces() {
  bool moved = false;
  for (instance* const one : timed_) {
    if (!is_grace_over(*one)) continue;
    one->partial->grace_due_ns = k_never;
    interpreter me{*this, *one};
    round_player(me).hear(one->partial->grace, one->round);
    const op_id grace = one->partial->grace;
    if (trace_ != nullptr && one->completed[grace] == one->round) note_end(*one, grace);
    advance(*one);
    moved = true;
  }
  return moved;
}

// Runs the instance until it has to wait. At the end of a round, a partial instance opens the next round at once. An
// ordinary instance does so only if it has a gate (round_gate.h), the gate is open, and the application has already
// called for the next round.
void engine::advance(instance& inst) {
  const bool is_noted = trace_ != nullptr;  // a local variable, so that the hot loop keeps it in a register
  interpreter me{*this, inst};
  round_player player(me);
  for (;;) {
    while (inst.ready_head != inst.ready_tail) {
      const op_id id = inst.ready[inst.ready_head++];
      const std::uint64_t begin_ns = is_noted ? trace_buffer::now_ns() : 0;
      ++counters_.ops;
      player.fire(id);
      if (is_noted) note_firing(inst, id, begin_ns);
      if (inst.phase != phase::running) return;
    }
    const std::uint32_t enqueued = inst.ready_tail - inst.ready_head;
    if (inst.phase != phase::running || !player.is_over(inst.exited, enqueued, inst.outstanding)) return;
    end_round(inst);
    if (inst.phase != phase::idle || !(inst.program->is_partial() || may_begin_next(inst))) return;
    begin_round(inst);
  }
}

void engine::begin_round(instance& inst) {
  ++inst.round;
  inst.phase = phase::running;
  inst.exited = false;
  inst.outstanding = 0;
  inst.ready_head = inst.ready_tail = 0;
  if (partial_state* const partial = inst.partial.get()) {
    std::ranges::fill(partial->segment_states, segment_state{.null = true});
    partial->whose.open(counted(inst, inst.round), inst.present);
    partial->grace_due_ns = k_never;
    inst.cells[partial->output_buffer].storage = open_fragment(inst).results->writing();
  }
  if (inst.lists != nullptr && !inst.lists->read_lengths()) return fail(inst, status::bounds, k_no_rank);
  interpreter me{*this, inst};
  round_player(me).begin(inst.program->roots());
  if (trace_ != nullptr) trace_->note(event_of(inst, k_no_op, trace_buffer::now_ns(), 0));
}

void engine::end_round(instance& inst) {
  ++counters_.rounds;
  if (trace_ != nullptr) note_end(inst, k_no_op);
  inst.phase = phase::idle;
  if (inst.partial != nullptr) {
    const auto [in_it, is_null] = segment_state_of_result(inst);
    const auto ranks = static_cast<std::uint64_t>(inst.program->place().size);
    publish_result(inst, {in_it.contributors, in_it.offers, ranks}, is_null);
    if (in_it.leaver != k_no_rank) std::erase(inst.present, in_it.leaver);
  } else {
    for (const op_id id : inst.signal_receives)
      if (inst.completed[id] != inst.round) net_.disarm(inst.links[id]);
  }
  if (inst.lists != nullptr) inst.lists->write_lengths();
  inst.finished.store(inst.round);
  if (inst.device != nullptr && inst.device->gate != nullptr) inst.device->gate->release(inst.round);
  published_ = true;
  if (inst.present.empty()) begin_closing(inst);
}

// --- firing ---------------------------------------------------------------------------------------------------------

outcome engine::send(instance& inst, op_id id, const op& o) {
  const cell& source = inst.cells[o.a.buffer()];
  const item_run items = run_of(inst.lists.get(), o.a, o.count);
  const std::uint64_t bytes = items.count * size_of(o.type);
  const auto [tally, is_null] = segment_state_of(inst, &op_segments::a, id);
  ++counters_.messages_sent;
  is_null ? ++counters_.nulls_sent : counters_.bytes_sent += bytes;
  if (inst.partial != nullptr) inst.partial->stats->sent(bytes, is_null);
  const std::uint64_t exposed = exposed_at(inst, id);
  if (exposed != 0) ++counters_.shown_sent;
  ++inst.moved[o.a.buffer()].messages_sent;
  inst.moved[o.a.buffer()].bytes_sent += is_null ? 0 : bytes;
  const message letter{is_null ? nullptr : source.data + items.begin * size_of(o.type), is_null ? 0 : bytes, tally,
                       is_null, exposed};
  return net_.send(inst.links[id], inst.round, letter) ? outcome::done : outcome::pending;
}

outcome engine::receive(instance& inst, op_id id, const op& o) {
  const cell& target = inst.cells[o.c.buffer()];
  const auto [begin, room] = target_of(inst.lists.get(), o.c, o.count);
  const std::size_t width = size_of(o.type);
  std::byte* into = target.storage == nullptr ? nullptr : target.storage + begin * width;
  arrival news;
  return net_.receive(inst.links[id], inst.round, {into, room * width}, news) ? arrived(inst, id, o, news)
                                                                              : outcome::pending;
}

outcome engine::arrived(instance& inst, op_id id, const op& o, const arrival& news) {
  cell& target = inst.cells[o.c.buffer()];
  ++inst.moved[o.c.buffer()].messages_received;
  inst.moved[o.c.buffer()].bytes_received += news.bytes;
  set_segment_state(inst, id, {news.tally, news.null});
  const bool has_lists = inst.lists != nullptr && inst.lists->has_lists(o.c);
  if (!news.null && !has_lists && news.bytes != o.count * size_of(o.type)) {
    fail(inst, status::transport, o.peer);
    return outcome::failed;
  }
  inst.pinned[id] = !news.null && o.in_place ? inst.payloads[id].readers : 0;
  if (!news.null) target.data = inst.pinned[id] != 0 ? news.data : target.storage;
  if (news.shown != 0) return map_exposed(inst, id, o, news);
  if (has_lists && !inst.lists->set_lengths(o, news.bytes)) return fail(inst, status::bounds, o.peer), outcome::failed;
  if (inst.pinned[id] != 0 && !may_stay(inst, id, o, news)) copy_to_storage(inst, id, o);
  return outcome::done;
}

// Completes a void op (an op whose guard is false). Empties the list into which the op would have received. If the
// guard skips empty lists, marks the op's target as not null. Releases the payloads that the op would have read.
outcome engine::pass_over(instance& inst, op_id id, const op& o) {
  if (inst.program->guard_of(o)->skips_empty) set_segment_state(inst, id, {});
  if (o.kind == op_kind::recv && inst.lists != nullptr) inst.lists->clear_unreceived(o);
  return released(inst, o);
}

// Returns true if a payload may stay in the sender's or transport's memory until its reader has fired. Meanwhile, the
// sender waits for the release. If the reader waited for an op that depends on the sender, this would be a deadlock. No
// deadlock is possible if the payload has only one reader, and the receive's token is enough for this reader to fire.
// No deadlock is possible either if the schedule declares that payloads may stay (builder::declare_holding). If a
// device has to read a payload but cannot access it, the payload never stays in place.
bool engine::may_stay(const instance& inst, op_id id, const op& o, const arrival& news) const {
  const auto [reader, readers] = inst.payloads[id];
  if (is_out_of_reach(inst, o, news)) return false;
  return inst.program->is_holding() || (readers == 1 && has_fired(inst, reader, 1));
}

void engine::copy_to_storage(instance& inst, op_id id, const op& o) {
  cell& target = inst.cells[o.c.buffer()];
  if (const std::uint64_t bytes = run_of(inst.lists.get(), o.c, o.count).count * size_of(o.type); bytes > 0)
    std::memcpy(target.storage, target.data, bytes);
  target.data = target.storage;
  inst.pinned[id] = 1;
  release_payload(inst, id);
}

outcome engine::compute(instance& inst, op_id id, const op& o) {
  const bound_kernel& mine = inst.kernels[id];
  if (mine.way == compute_way::function) return call_function(inst, id, o);
  if (mine.way == compute_way::lists) return compute_lists(inst, id, o);
  if (mine.way == compute_way::device) return compute_on_device(inst, id, o);
  if (mine.way == compute_way::device_function) return prepare_function(inst, id, o);
  const std::size_t width = size_of(o.type);
  const auto operand = [&](region part, std::size_t bytes) {
    return part.exists() ? inst.cells[part.buffer()].data + part.offset() * bytes : nullptr;
  };
  null_operands null;
  if (inst.partial != nullptr) null = settle_nulls(inst, id, o);
  if (null.is_settled) return released(inst, o);
  if (mine.run == nullptr) {
    select(inst, o, o.a, o.releases_a, may_swap(inst, id).of_a);
    return released(inst, o);
  }
  const kernel_call call{.a = null.a ? nullptr : operand(o.a, width),
                         .b = null.b ? nullptr : operand(o.b, width),
                         .s = operand(o.s, sizeof(double)),
                         .c = inst.cells[o.c.buffer()].storage + o.c.offset() * mine.target_bytes,
                         .count = o.count,
                         .with = mine.with,
                         .user = &inst.user};
  if (call.count * width >= long_bytes_ && is_taken_by_lane(inst, id, o, call)) return outcome::pending;
  mine.run(call);
  return combined(inst, o);
}

outcome engine::compute_lists(instance& inst, op_id id, const op& o) {
  if (!inst.lists->compute(o, inst.cells)) return fail(inst, status::bounds, k_no_rank), outcome::failed;
  set_segment_state(inst, id, {});
  return combined(inst, o);
}

buffer_swap engine::may_swap(const instance& inst, op_id id) {
  return inst.partial == nullptr ? buffer_swap{} : inst.partial->buffer_swaps[id];
}

// Prepares for work that keeps the engine's owner busy for a while. Flushes the published messages, so that receivers
// do not sleep meanwhile. Sets `polling`, so that senders need not wake another thread of this rank. Even an owner that
// is about to release the engine may set `polling`, because the owner polls once more before the release
// (offload/driver.h).
void engine::begin_long() {
  net_.flush();
  std::atomic<std::uint32_t>& polling = net_.bell().polling;
  if (polling.load() == 0) polling.store(1);
}

// Flushes published messages before long arithmetic. Returns true if the lane (the helper threads) has accepted the
// job. User-defined arithmetic is never passed to the lane, because the interface guarantees that one thread runs it.
bool engine::is_taken_by_lane(instance& inst, op_id id, const op& o, const kernel_call& call) {
  begin_long();
  const bound_kernel& mine = inst.kernels[id];
  const std::size_t width = size_of(o.type);
  if (lane_ == nullptr || !mine.is_elementwise || call.count * width < lane_->least_bytes()) return false;
  if (!lane_->submit({.run = mine.run, .call = call, .element_bytes = width, .cookie = cookie_of(inst, id)}))
    return false;
  ++counters_.lane_jobs;
  ++inst.jobs, ++jobs_;
  return true;
}

// Completes a compute op after its operands have been read.
outcome engine::combined(instance& inst, const op& o) {
  cell& target = inst.cells[o.c.buffer()];
  target.data = target.storage;
  return released(inst, o);
}

outcome engine::released(instance& inst, const op& o) {
  release_payload(inst, o.releases_a);
  release_payload(inst, o.releases_b);
  return outcome::done;
}

// Sets the target to the value of operand `from`, the only operand that exists and is not null. If `may_swap` is true
// (buffer_swap.h), avoids the copy where possible: operand and target exchange their memory, or the target points to a
// captured contribution, which does not change during a round. Otherwise copies the data.
void engine::select(instance& inst, const op& o, region from, op_id payload, bool may_swap) {
  cell& source = inst.cells[from.buffer()];
  cell& target = inst.cells[o.c.buffer()];
  const bool is_pinned = payload != k_no_op && inst.pinned[payload] != 0;
  if (from == o.c && !is_pinned) return;
  if (may_swap && !is_pinned && target.exchangeable) {
    if (source.exchangeable && source.data == source.storage) {
      std::swap(source.storage, target.storage);
      target.data = target.storage;
      return;
    }
    if (source.data == inst.cells[inst.partial->input_buffer].data && o.c.buffer() != inst.partial->output_buffer) {
      target.data = source.data;
      return;
    }
  }
  if (const std::uint64_t bytes = o.count * size_of(o.type); bytes > 0) {
    std::byte* const into = target.storage + o.c.offset() * size_of(o.type);
    const std::byte* const data = source.data + from.offset() * size_of(o.type);
    if (bytes >= k_long_bytes) begin_long();
    if (into != data) std::memmove(into, data, bytes);
  }
  target.data = target.storage;
}

void engine::release_payload(instance& inst, op_id receive) {
  if (receive == k_no_op || inst.pinned[receive] == 0) return;
  if (--inst.pinned[receive] == 0) net_.release(inst.links[receive], inst.round);
}

// --- recording ------------------------------------------------------------------------------------------------------

void engine::record(trace_buffer* into) {
  trace_ = into;
  if (trace_ == nullptr) return;
  for (const auto& inst : instances_)
    if (inst != nullptr) trace_->set_name(schedule_in_trace(inst->number_on_record), inst->label);
}

void engine::note_firing(const instance& inst, op_id id, std::uint64_t begin_ns) {
  trace_->note(event_of(inst, id, begin_ns, inst.completed[id] == inst.round ? trace_buffer::now_ns() : 0));
}

void engine::note_end(const instance& inst, op_id id) { trace_->note(event_of(inst, id, 0, trace_buffer::now_ns())); }

}  // namespace lsched
