#include "libsched/engine/engine.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "libsched/analysis/shared_sources.h"
#include "libsched/partial/adaptive_merge.h"
#include "ops/adasum/adasum.h"

namespace lsched {
namespace {

/// Arithmetic or copies of this size take so long (2 us) that nobody sleeps on messages published before.
constexpr std::uint64_t k_long_bytes = std::uint64_t{1} << 15;

constexpr std::uint64_t cookie_of(const instance& it, op_id id) { return std::uint64_t{it.index} << 32 | id; }

const std::byte* at(const cell& value, region where, const op& what) {
  return value.data + where.offset() * size_of(what.type);
}

using dot_sums = std::array<double, k_dot_sums>;

dot_sums sums_at(const cell& value, region where) {
  dot_sums sums;
  std::memcpy(sums.data(), value.data + where.offset() * sizeof(double), sizeof sums);
  return sums;
}

/// Why the application's arithmetic cannot do this op. Late offers cannot be merged by it, since it need not commute.
std::optional<failure> objection_to_user(const op& what, op_id id, const user_kernel& user) {
  const auto refused = [id](std::string why) {
    return failure{status::argument, "op " + std::to_string(id) + " asks for user-defined arithmetic" + why, k_no_rank,
                   id};
  };
  if (user.run == nullptr) return refused(", but there is none");
  if (what.kind == op_kind::capture) return refused(", and partial schedules have none");
  const auto is_whole = [&](std::uint64_t elements) { return elements % user.unit == 0; };
  const bool is_aligned = is_whole(what.a.offset()) && is_whole(what.b.offset()) && is_whole(what.c.offset());
  const bool has_whole_count = is_whole(what.count);
  if (user.unit != 1 && !(is_aligned && has_whole_count))
    return refused(" on other than whole units of " + std::to_string(user.unit) + " elements");
  return std::nullopt;
}

/// An output that is as long as all contributions together has a block of each rank. Any other is of all ranks
/// throughout.
std::vector<result_block> result_blocks_of(const schedule& program, const piece_map& pieces, std::uint64_t contribution,
                                           const combiner& output, std::uint16_t buffer) {
  const auto size = static_cast<std::uint64_t>(program.place().size);
  const bool is_gathered = size > 1 && contribution > 0 && output.count == size * contribution;
  const std::uint64_t blocks = is_gathered ? size : 1;
  std::vector<result_block> all;
  for (std::uint64_t i = 0; i < blocks; ++i)
    all.push_back({pieces.at(buffer, i * contribution), i * (output.bytes / blocks), output.bytes / blocks});
  return all;
}

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

// --- commit and removal -------------------------------------------------------------------------------------------

result<instance*> engine::add(schedule_ptr program, const binding& memory, const instance_options& options) {
  auto it = std::make_unique<instance>();
  it->program = std::move(program);
  it->id = next_id_++;
  it->label = it->program->name() + " #" + std::to_string(it->id);
  const auto hole = std::find(instances_.begin(), instances_.end(), nullptr);
  it->index = static_cast<std::uint32_t>(hole - instances_.begin());
  if (auto why = reserve(*it, memory, options)) {
    net_.detach(it->id);
    release_memory(*it);
    return *why;
  }
  if (hole == instances_.end()) instances_.emplace_back();
  ++live_;
  if (trace_ != nullptr) trace_->set_name(it->id, it->label);
  return (instances_[it->index] = std::move(it)).get();
}

std::optional<failure> engine::reserve(instance& it, const binding& memory, const instance_options& options) {
  const schedule& program = *it.program;
  const std::size_t ops = program.ops().size();
  it.counts.resize(ops);
  it.completed.resize(ops);
  it.ready.resize(ops);
  it.links.resize(ops, k_no_link);
  it.payloads.resize(ops);
  it.held.resize(ops);
  for (op_id id = 0; id < ops; ++id)
    for (const op_id receive : {program.ops()[id].releases_a, program.ops()[id].releases_b})
      if (receive != k_no_op) it.payloads[receive] = {id, it.payloads[receive].readers + 1};
  it.cells.resize(program.buffers().size());
  it.moved.resize(program.buffers().size());
  if (auto why = reserve_lists(it, memory)) return why;
  for (rank r = 0; r < program.place().size; ++r) it.present.push_back(r);
  if (auto why = find_arithmetic(it, options)) return why;

  const std::vector<edge_spec> edges = edges_of(it);
  auto links = net_.attach(it.id, !program.is_synchronising(), edges);
  if (!links) return links.error();
  for (std::size_t i = 0; i < edges.size(); ++i) it.links[static_cast<op_id>(edges[i].cookie)] = (*links)[i];

  std::vector<bool> stays_in_place(program.buffers().size());
  for (const op& what : program.ops())
    if (what.kind == op_kind::recv && what.in_place && net_.receives_in_place() && program.is_holding())
      stays_in_place[what.c.buffer()] = true;
  for (std::size_t b = 0; b < it.cells.size(); ++b) {
    if (program.buffers()[b].role != buffer_role::scratch || stays_in_place[b]) continue;
    it.cells[b].home = own(it, program.buffers()[b].bytes());
    it.cells[b].data = it.cells[b].home;  // a schedule by hand may read what was never written
    it.cells[b].exchangeable = true;
    if (it.cells[b].home == nullptr) return failure{status::no_memory, "no memory left for scratch buffers"};
  }
  if (program.is_partial()) return reserve_partial(it, options);
  set_binding(it, memory);
  return std::nullopt;
}

// A partial instance owns its input and output: contribution and result buffers.
std::optional<failure> engine::reserve_partial(instance& it, const instance_options& options) {
  const schedule& program = *it.program;
  const op* combining = nullptr;
  for (op_id id = 0; id < program.ops().size(); ++id) {
    const op& what = program.ops()[id];
    if (is_call(what, program.place().self)) it.calls.push_back(id);
    if (what.kind == op_kind::capture) {
      it.input_buffer = what.c.buffer();
      combining = &what;
    }
  }
  for (std::uint16_t b = 0; b < program.buffers().size(); ++b)
    if (program.buffers()[b].role == buffer_role::output) it.output_buffer = b;
  if (it.calls.empty() || combining == nullptr || it.output_buffer == k_no_buffer)
    return failure{status::argument, "a partial schedule needs a call, a capture and an output"};

  // Results that nobody has collected are added up, however contributions are merged: they are steps.
  const bool adapts = combining->what == kernel::adasum;
  const auto arithmetic_of = [&](const buffer& data) {
    return combiner{find_reduce(adapts ? kernel::sum : combining->what, data.type), data.count, data.bytes()};
  };
  const buffer& input = program.buffers()[it.input_buffer];
  combiner given = arithmetic_of(input);
  const combiner made = arithmetic_of(program.buffers()[it.output_buffer]);
  if (adapts)
    given.merge =
        adaptive_merge(input.type, options.tensors.empty() ? std::vector<tensor>{{0, input.count}} : options.tensors);
  std::vector<std::byte*> memory;
  for (std::uint32_t i = 0; i < contribution::k_buffers + options.lag.buffers(); ++i) {
    memory.push_back(own(it, i < contribution::k_buffers ? given.bytes : made.bytes));
    if (memory.back() == nullptr)
      return failure{status::no_memory, "no memory left for contribution and result buffers"};
  }
  it.whose = round_calls(program.starts(), program.place().size);
  it.pieces = piece_map(program);
  it.presences.resize(it.pieces.count());
  it.takeovers = takeovers_of(program, it.pieces);
  it.result_blocks = result_blocks_of(program, it.pieces, given.count, made, it.output_buffer);
  it.offers = std::make_unique<contribution>(given, std::span(memory).first<contribution::k_buffers>());
  it.results = std::make_unique<delivery>(made, options.lag, std::span(memory).subspan(contribution::k_buffers));
  it.stats = std::make_unique<partial_stats>(program.place().size);
  it.cells[it.output_buffer].exchangeable = true;
  return std::nullopt;
}

std::byte* engine::own(instance& it, std::uint64_t bytes) {
  std::byte* place = net_.allocate(std::max<std::uint64_t>(bytes, 1));
  if (place != nullptr) it.owned.push_back(place);
  return place;
}

std::optional<failure> engine::find_arithmetic(instance& it, const instance_options& options) {
  it.local = options.local;
  const auto ops = it.program->ops();
  it.reductions.resize(ops.size());
  for (op_id id = 0; id < ops.size(); ++id) {
    const op& what = ops[id];
    if (what.what == kernel::user)
      if (auto why = objection_to_user(what, id, options.user)) return why;
    if (what.kind == op_kind::compute && is_function(what.what) && options.local == nullptr)
      return failure{status::argument, "op " + std::to_string(id) + " calls a function, but there are none", k_no_rank,
                     id};
    if (what.kind == op_kind::compute &&
        (what.what == kernel::dot_norms || what.what == kernel::adasum || what.what == kernel::divide)) {
      it.adaptives.resize(ops.size());
      it.adaptives[id] = {find_dot_norms(what.type), find_scaled_add(what.type), find_divide(what.type)};
    }
    if (what.kind == op_kind::compute && is_reduction(what.what))
      it.reductions[id] =
          what.what == kernel::user ? arithmetic(options.user) : arithmetic(find_reduce(what.what, what.type));
    if (what.kind == op_kind::signal_recv && what.peer != it.program->place().self) it.signal_receives.push_back(id);
  }
  return std::nullopt;
}

std::vector<edge_spec> engine::edges_of(const instance& it) const {
  const schedule& program = *it.program;
  const std::vector<std::uint32_t> sources = shared_sources(program);
  std::vector<edge_spec> edges;
  for (op_id id = 0; id < program.ops().size(); ++id) {
    const op& what = program.ops()[id];
    if (!is_communication(what.kind) || what.peer == program.place().self) continue;
    edge_spec edge{.outgoing = what.kind == op_kind::send || what.kind == op_kind::signal_send,
                   .signal = is_signal(what.kind),
                   .source = sources[id],
                   .peer = what.peer,
                   .tag = what.tag,
                   .cookie = cookie_of(it, id)};
    if (!edge.signal) edge.capacity = most_bytes(program, what);
    if (what.kind == op_kind::recv) edge.in_place = what.in_place && net_.receives_in_place();
    if (what.kind == op_kind::send)
      edge.foreign = !program.is_partial() && program.buffers()[what.a.buffer()].role != buffer_role::scratch;
    edges.push_back(edge);
  }
  return edges;
}

void engine::set_binding(instance& it, const binding& memory) {
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  for (std::size_t b = 0; b < it.cells.size(); ++b) {
    const buffer_role role = it.program->buffers()[b].role;
    if (role == buffer_role::input) it.cells[b].data = memory.inputs.at(inputs++);
    if (role == buffer_role::output) it.cells[b].data = it.cells[b].home = memory.outputs.at(outputs++);
  }
  bind_lengths(it, memory);
}

status engine::open(instance& it) {
  if (const status answer = net_.link(it.id); answer != status::ok) return answer;
  if (it.program->is_partial()) begin_round(it);
  advance(it);
  net_.flush();
  return status::ok;
}

status engine::bind(instance& it, const binding& memory) {
  if (it.program->is_partial()) return status::unsupported;
  if (it.phase != phase::idle || it.called.load() != it.finished.load()) return status::state;
  if (objection_to_lengths(*it.program, memory)) return status::argument;
  set_binding(it, memory);
  if (it.local != nullptr) it.local->rebound();
  return status::ok;
}

status engine::remove(instance& it) {
  const bool quiet = it.phase == phase::closed || it.phase == phase::failed ||
                     (it.phase == phase::idle && it.called.load() == it.finished.load());
  if (!quiet || it.jobs != 0 || it.posted.load()) return status::busy;
  net_.detach(it.id);
  release_memory(it);
  instances_[it.index].reset();
  --live_;
  return status::ok;
}

void engine::release_memory(instance& it) {
  for (std::byte* place : it.owned) net_.deallocate(place);
  it.owned.clear();
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
    std::ranges::fill(it.presences, presence{.null = true});
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
    const auto [in_it, is_null] = presence_of_result(it);
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

// Who is in what has just been computed. Blocks of absent ranks become zeros.
presence engine::presence_of_result(const instance& it) {
  presence all{.null = true};
  for (const result_block& block : it.result_blocks) {
    const presence& one = it.presences[block.piece];
    all = {merge(all.tally, one.tally), all.null && one.null};
  }
  if (all.null || it.result_blocks.size() == 1) return all;
  std::byte* const result = it.cells[it.output_buffer].home;
  for (const result_block& block : it.result_blocks)
    if (it.presences[block.piece].null) std::memset(result + block.begin, 0, block.bytes);
  return all;
}

// Everybody has left and everybody knows. A signal of the last round may still be on its way to us, so every
// signal edge carries one more, its last; when all of them are here, no peer will touch this instance again.
void engine::begin_closing(instance& it) {
  it.phase = phase::closing;
  it.last_signals = 1;
  const auto ops = it.program->ops();
  for (op_id id = 0; id < ops.size(); ++id)
    if (ops[id].kind == op_kind::signal_send) net_.signal(it.links[id], k_last_round);
  for (const op_id id : it.signal_receives)
    if (!net_.arm(it.links[id], k_last_round)) ++it.last_signals;
  last_signal_seen(it);
}

void engine::last_signal_seen(instance& it) {
  if (--it.last_signals != 0) return;
  it.phase = phase::closed;
  it.finished.store(k_last_round);
  published_ = true;
}

// --- firing ---------------------------------------------------------------------------------------------------------

// What is read as one is null as one, so its first piece speaks for all of it (pieces.h).
presence engine::presence_of(const instance& it, piece_range op_pieces::*operand, op_id id) {
  if (it.presences.empty()) return {};
  const piece_range pieces = it.pieces.of(id).*operand;
  return pieces.size() == 0 ? presence{.null = true} : it.presences[pieces.first];
}

void engine::set_presence(instance& it, op_id id, const presence& now) {
  if (it.presences.empty()) return;
  const piece_range pieces = it.pieces.of(id).c;
  std::fill(it.presences.begin() + pieces.first, it.presences.begin() + pieces.end, now);
}

outcome engine::send(instance& it, op_id id, const op& what) {
  const cell& source = it.cells[what.a.buffer()];
  const item_run items = run_of(it, what.a, what.count);
  const std::uint64_t bytes = items.count * size_of(what.type);
  const auto [tally, is_null] = presence_of(it, &op_pieces::a, id);
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
  set_presence(it, id, {news.tally, news.null});
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

// Takes what the application has offered so far; nothing offered is a null contribution.
outcome engine::capture(instance& it, op_id id, const op& what) {
  const rank self = it.program->place().self;
  const bool is_present = std::binary_search(it.present.begin(), it.present.end(), self);
  it.stats->enter(it.round, trace_buffer::now_ns());
  it.gated.store(it.round);  // before it looks: who reads less afterwards knows that his offer is found
  const auto [buffer, is_last] = it.offers->capture();
  it.captured = buffer;
  presence mine{.null = !it.captured.has_value()};
  mine.tally.leaver = is_last && is_present ? self : k_no_rank;
  if (it.captured) {
    const contribution::pending& offered = it.offers->at(*it.captured);
    it.cells[what.c.buffer()].data = offered.data;
    mine.tally.contributors = 1;
    mine.tally.offers = offered.offers;
  }
  set_presence(it, id, mine);
  return outcome::done;
}

outcome engine::compute(instance& it, op_id id, const op& what) {
  if (what.what == kernel::dot_norms) return fire_dot_norms(it, id, what);
  if (what.what == kernel::divide) return fire_divide(it, id, what);
  if (is_function(what.what)) return fire_function(it, id, what);
  if (!it.lists.empty() && is_about_lists(it, what)) return fire_lists(it, id, what);
  const presence a = presence_of(it, &op_pieces::a, id);
  if (what.what == kernel::copy) {
    set_presence(it, id, a);
    if (!a.null) select(it, what, what.a, what.releases_a, may_take_over(it, id).of_a);
  } else {
    const presence b = presence_of(it, &op_pieces::b, id);
    set_presence(it, id, {merge(a.tally, b.tally), a.null && b.null});
    if (!a.null && !b.null) {
      const std::uint64_t count = what.count;
      if (count * size_of(what.type) >= long_bytes_ && is_taken_by_lane(it, id, what, count)) return outcome::pending;
      if (count > 0) combine(it, id, what, count);
      return combined(it, what);
    }
    if (!a.null) select(it, what, what.a, what.releases_a, may_take_over(it, id).of_a);
    if (!b.null) select(it, what, what.b, what.releases_b, may_take_over(it, id).of_b);
  }
  release_payload(it, what.releases_a);
  release_payload(it, what.releases_b);
  return outcome::done;
}

void engine::combine(instance& it, op_id id, const op& what, std::uint64_t count) {
  const std::byte* lower = at(it.cells[what.a.buffer()], what.a, what);
  const std::byte* higher = at(it.cells[what.b.buffer()], what.b, what);
  std::byte* into = it.cells[what.c.buffer()].home + what.c.offset() * size_of(what.type);
  if (what.what != kernel::adasum) return it.reductions[id](lower, higher, into, count);
  const auto [x, y] = adasum_coefficients_of(sums_at(it.cells[what.s.buffer()], what.s).data());
  it.adaptives[id].scaled_add(x, lower, y, higher, into, count);
}

// The sums of what is not there are zeros, and they are there: messages hold the sums of several vectors, and adasum
// asks its operands who is missing.
outcome engine::fire_dot_norms(instance& it, op_id id, const op& what) {
  const std::uint64_t count = what.count;
  const bool is_null = presence_of(it, &op_pieces::a, id).null || presence_of(it, &op_pieces::b, id).null;
  cell& target = it.cells[what.c.buffer()];
  if (count * size_of(what.type) >= k_long_bytes) begin_long();
  dot_sums sums{};
  if (count > 0 && !is_null)
    it.adaptives[id].dot_norms(at(it.cells[what.a.buffer()], what.a, what), at(it.cells[what.b.buffer()], what.b, what),
                               count, sums.data());
  std::memcpy(target.home + what.c.offset() * sizeof(double), sums.data(), sizeof sums);
  set_presence(it, id, {});
  return combined(it, what);
}

// What it makes is there, whatever was absent of what it reads; and who is in it is what it goes by to say.
outcome engine::fire_function(instance& it, op_id id, const op& what) {
  const auto source_of = [&](region at, piece_range op_pieces::*operand) {
    if (!at.exists()) return function_input{};
    const buffer& under = it.program->buffers()[at.buffer()];
    const std::byte* const data = presence_of(it, operand, id).null ? nullptr : it.cells[at.buffer()].data;
    return function_input{data, under.count, lists_of(it, at), size_of(under.type)};
  };
  const function_input source = source_of(what.a, &op_pieces::a), by = source_of(what.b, &op_pieces::b);
  const function_output target{it.cells[what.c.buffer()].home, what.count, lists_of(it, what.c), size_of(what.type)};
  if (typical_bytes(*it.program, what) >= k_long_bytes) begin_long();
  const status verdict = it.local->call(what.tag, it.round, source, by, target);
  if (verdict != status::ok) return fail(it, verdict, k_no_rank), outcome::failed;
  set_presence(it, id, {.tally = what.b.exists() ? presence_of(it, &op_pieces::b, id).tally : census{}});
  return combined(it, what);
}

outcome engine::fire_divide(instance& it, op_id id, const op& what) {
  const presence a = presence_of(it, &op_pieces::a, id);
  const std::uint64_t count = what.count;
  set_presence(it, id, a);
  if (count * size_of(what.type) >= k_long_bytes) begin_long();
  if (count > 0 && !a.null)
    it.adaptives[id].divide(at(it.cells[what.a.buffer()], what.a, what),
                            it.cells[what.c.buffer()].home + what.c.offset() * size_of(what.type), count, what.tag);
  return combined(it, what);
}

takeover engine::may_take_over(const instance& it, op_id id) {
  return it.takeovers.empty() ? takeover{} : it.takeovers[id];
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
bool engine::is_taken_by_lane(instance& it, op_id id, const op& what, std::uint64_t count) {
  begin_long();
  const reduce_fn run = it.reductions[id].built_in();
  if (lane_ == nullptr || run == nullptr || count * size_of(what.type) < lane_->least_bytes()) return false;
  const lane_job job{.run = run,
                     .a = at(it.cells[what.a.buffer()], what.a, what),
                     .b = at(it.cells[what.b.buffer()], what.b, what),
                     .c = it.cells[what.c.buffer()].home + what.c.offset() * size_of(what.type),
                     .count = count,
                     .element_bytes = size_of(what.type),
                     .cookie = cookie_of(it, id)};
  if (!lane_->submit(job)) return false;
  ++counters_.lane_jobs;
  ++it.jobs, ++jobs_;
  return true;
}

// Both operands have been read for the last time.
outcome engine::combined(instance& it, const op& what) {
  cell& target = it.cells[what.c.buffer()];
  target.data = target.home;
  release_payload(it, what.releases_a);
  release_payload(it, what.releases_b);
  return outcome::done;
}

// target = the one operand there is. In a partial schedule, where this happens whenever a contribution is null, the
// target takes over the operand's home, if it may, and leaves its own in exchange (takeover.h). What was
// captured has no home and is written by nobody in a round: the target just lies there.
void engine::select(instance& it, const op& what, region from, op_id payload, bool may_take_over) {
  cell& source = it.cells[from.buffer()];
  cell& target = it.cells[what.c.buffer()];
  const bool is_held = payload != k_no_op && it.held[payload] != 0;
  if (from == what.c && !is_held) return;
  if (may_take_over && !is_held && target.exchangeable) {
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
    std::byte* into = target.home + what.c.offset() * size_of(what.type);
    if (bytes >= k_long_bytes) begin_long();
    if (into != at(source, from, what)) std::memmove(into, at(source, from, what), bytes);
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

namespace {

/// Whether a partial instance's open round has been activated here.
bool has_begun(const instance& it) {
  const auto ops = it.program->ops();
  for (op_id id = 0; id < ops.size(); ++id)
    if (ops[id].kind == op_kind::capture && it.completed[id] == it.round) return true;
  return false;
}

/// Who could activate it.
std::string describe_start(const instance& it, rank* waits_for) {
  const activation& starts = it.program->starts();
  const auto [self, size] = it.program->place();
  if (starts.is_full(it.round)) return " not started: it waits for this rank's own call";
  if (starts.policy == activation_policy::solo) return " not started: no rank has called for it";
  const auto [candidates, arrivals] = quota_of(starts, size);
  std::vector<rank> some = it.present;
  if (candidates < size) std::erase_if(some, [&](rank r) { return !it.whose.is_candidate(r); });
  const auto number = std::min<std::size_t>(static_cast<std::size_t>(arrivals), some.size());
  if (some.size() == 1 && waits_for != nullptr) *waits_for = some.front();
  if (some.size() == 1)
    return " not started: it waits for the call of rank " + std::to_string(some.front()) +
           (some.front() == self ? " (this one)" : "");
  std::string text = " not started: it waits for " + std::to_string(number) + " of " + std::to_string(some.size()) +
                     (candidates < size ? " drawn ranks to call:" : " ranks to call");
  for (std::size_t i = 0; candidates < size && i < some.size() && i < 8; ++i)
    text += (i == 0 ? " " : ",") + std::to_string(some[i]);
  if (candidates < size && some.size() > 8) text += ",…";
  return text;
}

}  // namespace

std::string engine::describe_wait(const instance& it, rank* waits_for) const {
  const schedule& program = *it.program;
  std::string text = it.label + ", round " + std::to_string(open_round(it)) + ":";
  if (!it.calls.empty() && it.phase == phase::running && !has_begun(it)) return text + describe_start(it, waits_for);
  std::size_t unfired = 0;
  std::vector<rank> ranks;
  for (op_id id = 0; id < program.ops().size() && it.phase == phase::running; ++id) {
    const op& what = program.ops()[id];
    if (it.completed[id] == it.round) continue;
    const bool has_fired = is_enabled(it.counts[id].in(it.round), what.need);
    if (!has_fired && ++unfired <= 8) text += (unfired == 1 ? " unfired ops " : ",") + std::to_string(id);
    if (has_fired && is_communication(what.kind) && what.peer != program.place().self) ranks.push_back(what.peer);
  }
  if (unfired > 8) text += ",… (" + std::to_string(unfired) + ")";
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (!ranks.empty()) text += "; waits for rank";
  for (std::size_t i = 0; i < ranks.size() && i < 8; ++i) text += (i == 0 ? " " : ",") + std::to_string(ranks[i]);
  if (ranks.size() > 8) text += ",…";
  if (it.jobs != 0) text += "; " + std::to_string(it.jobs) + " on the lane";
  if (it.phase == phase::idle) text += " not started here";
  if (it.phase == phase::closing)
    text += " closing, " + std::to_string(it.last_signals) + " peers have not said their last";
  if (waits_for != nullptr && !ranks.empty()) *waits_for = ranks.front();
  return text;
}

}  // namespace lsched
