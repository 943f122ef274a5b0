#include "tests/support/symbolic_world.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "tests/verify_oracle/mutant.h"

namespace lsched::testing {
namespace {

std::uint64_t mixed(std::uint64_t x, std::uint64_t y) {
  std::uint64_t h = (x ^ 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu + y;
  h ^= h >> 29;
  h *= 0xc4ceb9fe1a85ec53u;
  return h ^ (h >> 32);
}

std::uint64_t key_of(op_kind receive, rank sender, std::uint32_t tag) {
  const std::uint64_t kind = receive == op_kind::recv ? 1 : 0;
  return kind << 63 | static_cast<std::uint64_t>(sender) << 32 | tag;
}

bool moves_or_computes(op_kind kind) { return is_payload(kind) || kind == op_kind::compute; }

/// Returns whether the event of a call op happens in the round: a call, the end of the grace, or a departure.
bool is_made(const round_plan& plan, rank r, std::uint32_t tag) {
  if (plan.is_full || tag == k_full_call_tag)
    return plan.is_full && tag == k_full_call_tag && plan.calls.at(static_cast<std::size_t>(r));
  if (tag == k_grace_tag) return plan.passes_grace;
  if (tag >= k_left_tag) return std::ranges::count(plan.left, static_cast<rank>(tag - k_left_tag)) != 0;
  return plan.calls.at(static_cast<std::size_t>(r));
}

bool is_own_call(const op& what, rank self) { return what.kind == op_kind::signal_recv && what.peer == self; }

term_ptr combined(kernel what, const term_ptr& lower, const term_ptr& higher) {
  if (lower->is_null) return higher;
  if (higher->is_null) return lower;
  auto both = std::make_shared<term>(*lower);
  for (std::size_t r = 0; r < both->copies.size(); ++r)
    both->copies[r] = static_cast<std::uint16_t>(both->copies[r] + higher->copies[r]);
  both->in_rank_order = lower->in_rank_order && higher->in_rank_order && lower->highest < higher->lowest;
  both->lowest = std::min(lower->lowest, higher->lowest);
  both->highest = std::max(lower->highest, higher->highest);
  both->tree = mixed(mixed(lower->tree, higher->tree), static_cast<std::uint64_t>(what));
  return both;
}

term_ptr divided(const term_ptr& sum, std::uint64_t divisor) {
  auto mean = std::make_shared<term>(*sum);
  mean->tree = mixed(mixed(sum->tree, divisor), static_cast<std::uint64_t>(kernel::divide));
  return mean;
}

/// Orders events by time. Events with the same time are ordered by their creation.
constexpr auto k_later = [](const auto& x, const auto& y) {
  return x.time != y.time ? x.time > y.time : x.number > y.number;
};

}  // namespace

// --- setting up --------------------------------------------------------------------------------------------

symbolic_world::symbolic_world(std::vector<schedule_ptr> programs, circumstances around)
    : ranks_(programs.size()), around_(around), random_(around.seed) {
  for (std::size_t r = 0; r < programs.size(); ++r) {
    ranks_[r].program = std::move(programs[r]);
    prepare(ranks_[r], around.in_place);
  }
}

void symbolic_world::prepare(rank_state& me, bool in_place) {
  const schedule& program = *me.program;
  me.ops.resize(program.ops().size());
  for (op_id id = 0; id < program.ops().size(); ++id) {
    const op& what = program.ops()[id];
    if (what.kind == op_kind::recv || what.kind == op_kind::signal_recv)
      me.receiver_of[key_of(what.kind, what.peer, what.tag)] = id;
    const bool is_capture = what.kind == op_kind::capture;
    if (is_capture || (me.entry == k_no_op && is_own_call(what, program.place().self))) me.entry = id;
  }
  std::vector<std::uint16_t> inputs;
  std::size_t outputs = 0;
  for (std::uint16_t b = 0; b < program.buffers().size(); ++b) {
    const buffer_role role = program.buffers()[b].role;
    me.memory_of.push_back(b);
    if (role == buffer_role::input) inputs.push_back(b);
    if (role == buffer_role::output && in_place) me.memory_of[b] = inputs.at(outputs++);
  }
  me.memories.resize(program.buffers().size());
}

std::vector<schedule_ptr> whole_world(rank size, const std::function<result<schedule_ptr>(world)>& make) {
  std::vector<schedule_ptr> all;
  for (rank self = 0; self < size; ++self) {
    const auto made = make({.self = self, .size = size});
    if (!made) throw std::runtime_error("rank " + std::to_string(self) + ": " + made.error().text);
    all.push_back(*made);
  }
  return all;
}

// --- the loop ----------------------------------------------------------------------------------------------

std::string symbolic_world::run(std::size_t rounds) {
  const std::vector<bool> everybody(ranks_.size(), true);
  return run(std::vector<round_plan>(rounds, {.calls = everybody, .pending = everybody}));
}

std::string symbolic_world::run(std::vector<round_plan> plans) {
  plans_ = std::move(plans);
  entered_.assign(plans_.size(), 0);
  tallies_.assign(plans_.size(), {});
  results_.assign(plans_.size(), std::vector<term_ptr>(ranks_.size()));
  for (rank r = 0; at(r) < ranks_.size(); ++r) push({step::begin, r, k_no_op, 1, 0, 0, nullptr});
  event next{};
  while (fault_.empty() && pop(next)) handle(next);
  if (fault_.empty()) object(stuck());
  return fault_;
}

bool symbolic_world::is_deferred(const event& it) const {
  if (around_.one_by_one && it.what == step::begin) return true;
  if (it.who == around_.straggler) return it.what == step::begin || it.what == step::call;
  return around_.how == order::late_sends && it.what == step::complete && op_of(it.who, it.id).kind == op_kind::send;
}

void symbolic_world::push(event it, std::uint64_t delay) {
  it.time = now_ + delay;
  it.number = pushed_++;
  std::vector<event>& queue = is_deferred(it) ? deferred_ : events_;
  queue.push_back(std::move(it));
  if (around_.how == order::by_hops) std::push_heap(queue.begin(), queue.end(), k_later);
}

bool symbolic_world::pop(event& next) {
  std::vector<event>& queue = events_.empty() ? deferred_ : events_;
  if (queue.empty()) return false;
  if (around_.how == order::by_hops) {
    std::pop_heap(queue.begin(), queue.end(), k_later);
  } else {
    std::swap(queue[random_() % queue.size()], queue.back());
  }
  next = std::move(queue.back());
  queue.pop_back();
  now_ = std::max(now_, next.time);
  return true;
}

void symbolic_world::handle(const event& it) {
  switch (it.what) {
    case step::begin: return begin(it.who);
    case step::call: {
      op_state& own = ranks_[at(it.who)].ops[it.id];
      own.signalled = std::max(own.signalled, it.round);
      return arm(it.who, it.id);
    }
    case step::read: {
      const term_ptr payload = content_at(it.who, op_of(it.who, it.id).a);
      push({step::arrive, it.who, it.id, it.round, 0, 0, payload}, 1);
      return push({step::complete, it.who, it.id, it.round, 0, 0, nullptr});
    }
    case step::arrive: return arrive(it);
    case step::complete: return complete(it.who, it.id);
  }
}

// --- rounds ------------------------------------------------------------------------------------------------

void symbolic_world::begin(rank r) {
  rank_state& me = ranks_[at(r)];
  ++me.round;
  me.is_running = true;
  const bool captures = me.entry != k_no_op && op_of(r, me.entry).kind == op_kind::capture;
  for (memory& place : me.memories) place = {};
  for (std::size_t b = 0; b < me.memory_of.size(); ++b)
    if (me.program->buffers()[b].role == buffer_role::input && !captures) me.memories[b].content = leaf(r, me.round);
  if (me.entry == k_no_op) ++entered_[index_of(me.round)];
  for (const rank_state& other : ranks_)
    if (me.round > other.round + furthest_ahead_) furthest_ahead_ = me.round - other.round;

  const round_plan& plan = plans_[index_of(me.round)];
  for (op_id id = 0; id < me.ops.size(); ++id)
    if (is_own_call(op_of(r, id), r) && is_made(plan, r, op_of(r, id).tag))
      push({step::call, r, id, me.round, 0, 0, nullptr});
  for (const op_id root : me.program->roots()) arm(r, root);
  end_if_over(r);
}

void symbolic_world::check_exit(rank r, op_id id) {
  const rank_state& me = ranks_[at(r)];
  if (me.program->is_synchronising() && entered_[index_of(me.round)] < ranks_.size())
    object(name_of_op(r, id) + " is the exit and completes although only " +
           std::to_string(entered_[index_of(me.round)]) + " of " + std::to_string(ranks_.size()) +
           " ranks have entered");
  for (op_id other = 0; other < me.ops.size(); ++other)
    if (moves_or_computes(op_of(r, other).kind) && me.ops[other].completed != me.round)
      object(name_of_op(r, id) + " is the exit and completes before " + name_of_op(r, other));
  tally& took = tallies_[index_of(me.round)];
  took.hops = std::max(took.hops, now_);
}

void symbolic_world::end_if_over(rank r) {
  rank_state& me = ranks_[at(r)];
  if (!me.is_running || me.in_flight != 0 || me.ops[me.program->exit()].completed != me.round) return;
  me.is_running = false;
  for (std::size_t b = 0; b < me.memory_of.size(); ++b) {
    if (me.program->buffers()[b].role != buffer_role::output) continue;
    results_[index_of(me.round)][at(r)] = me.memories[me.memory_of[b]].content;
    break;
  }
  if (me.round < plans_.size()) push({step::begin, r, k_no_op, me.round + 1, 0, 0, nullptr});
}

// --- firing ------------------------------------------------------------------------------------------------

void symbolic_world::give_token(rank r, op_id id) {
  rank_state& me = ranks_[at(r)];
  if (fires_at(me.ops[id].tokens.add(me.round), op_of(r, id).need)) arm(r, id);
}

/// Fires an op that has its tokens. (Each completed predecessor gives the op one token.) A receive of a signal also
/// needs the signal. Therefore this function is called when an op has got its tokens, and when a signal arrives.
void symbolic_world::arm(rank r, op_id id) {
  rank_state& me = ranks_[at(r)];
  op_state& it = me.ops[id];
  const op& what = op_of(r, id);
  if (!me.is_running || it.fired == me.round) return;
  if (what.kind == op_kind::signal_recv) {
    const bool has_tokens = what.need == 0 || (it.tokens.stamp == me.round && it.tokens.tokens >= what.need);
    if (!has_tokens || it.signalled < me.round) return;
  }
  it.fired = me.round;
  ++me.in_flight;
  fire(r, id);
}

void symbolic_world::fire(rank r, op_id id) {
  const op& what = op_of(r, id);
  const round_no round = ranks_[at(r)].round;
  tally& took = tallies_[index_of(round)];
  switch (what.kind) {
    case op_kind::send: {
      start_reading(r, id, what.a, what.count);
      const term_ptr content = content_at(r, what.a);
      ++took.messages;
      if (content && !content->is_null) took.bytes += what.count * size_of(what.type);
      return push({step::read, r, id, round, 0, 0, nullptr});
    }
    case op_kind::recv: start_writing(r, id, what.count); return try_receive(r, id);
    case op_kind::compute:
      start_reading(r, id, what.a, what.count);
      if (what.b.exists()) start_reading(r, id, what.b, what.count);
      start_writing(r, id, what.count);
      break;
    case op_kind::capture:
      start_writing(r, id, what.count);
      ++entered_[index_of(round)];
      took.wake_hops = std::max(took.wake_hops, now_);
      break;
    case op_kind::signal_send:
      ++took.signals;
      push({step::arrive, r, id, round, 0, 0, nullptr}, 1);
      break;
    case op_kind::signal_recv:
      if (id == ranks_[at(r)].entry) ++entered_[index_of(round)];
      break;
    case op_kind::nop: break;
  }
  push({step::complete, r, id, round, 0, 0, nullptr});
}

void symbolic_world::arrive(const event& it) {
  const op& sent = op_of(it.who, it.id);
  rank_state& you = ranks_[at(sent.peer)];
  const op_kind wanted = sent.kind == op_kind::send ? op_kind::recv : op_kind::signal_recv;
  const auto found = you.receiver_of.find(key_of(wanted, it.who, sent.tag));
  if (found == you.receiver_of.end())
    return object(name_of_op(it.who, it.id) + " finds no receiver at rank " + std::to_string(sent.peer));
  op_state& receiver = you.ops[found->second];
  if (wanted == op_kind::signal_recv) {
    receiver.signalled = std::max(receiver.signalled, it.round);
    return arm(sent.peer, found->second);
  }
  const auto is_same = [&](const message& other) { return other.round == it.round; };
  if (receiver.completed >= it.round || std::any_of(receiver.arrived.begin(), receiver.arrived.end(), is_same))
    return object(name_of_op(it.who, it.id) + " sends a message that has already arrived");
  receiver.arrived.push_back({it.round, sent.count, it.payload});
  try_receive(sent.peer, found->second);
}

void symbolic_world::try_receive(rank r, op_id id) {
  rank_state& me = ranks_[at(r)];
  op_state& it = me.ops[id];
  if (!me.is_running || it.fired != me.round || it.completed == me.round) return;
  for (std::size_t i = 0; i < it.arrived.size(); ++i) {
    if (it.arrived[i].round != me.round) continue;
    const message taken = it.arrived[i];
    it.arrived.erase(it.arrived.begin() + static_cast<std::ptrdiff_t>(i));
    if (taken.count != op_of(r, id).count)
      return object(name_of_op(r, id) + " gets " + std::to_string(taken.count) + " elements");
    memory_at(r, op_of(r, id).c).content = taken.payload;
    return push({step::complete, r, id, me.round, 0, 0, nullptr});
  }
}

// --- completing --------------------------------------------------------------------------------------------

void symbolic_world::complete(rank r, op_id id) {
  rank_state& me = ranks_[at(r)];
  const op& what = op_of(r, id);
  const round_plan& plan = plans_[index_of(me.round)];
  if (what.kind == op_kind::send) stop_reading(r, what.a);
  if (what.kind == op_kind::recv) stop_writing(r, id, content_at(r, what.c));
  if (what.kind == op_kind::compute) {
    term_ptr content = computed(r, what);
    stop_reading(r, what.a);
    if (what.b.exists()) stop_reading(r, what.b);
    stop_writing(r, id, std::move(content));
  }
  if (what.kind == op_kind::capture)
    stop_writing(r, id, plan.pending.at(at(r)) ? leaf(r, me.round) : std::make_shared<term>(term{.is_null = true}));
  finish(r, id);
}

void symbolic_world::finish(rank r, op_id id) {
  rank_state& me = ranks_[at(r)];
  me.ops[id].completed = me.round;
  --me.in_flight;
  if (id == me.program->exit()) check_exit(r, id);
  for (const op_id after : me.program->successors(id)) give_token(r, after);
  end_if_over(r);
}

// --- memory ------------------------------------------------------------------------------------------------

symbolic_world::memory& symbolic_world::memory_at(rank r, region where) {
  rank_state& me = ranks_[at(r)];
  return me.memories[me.memory_of[where.buffer()]];
}

void symbolic_world::start_reading(rank r, op_id id, region from, std::uint64_t count) {
  memory& place = memory_at(r, from);
  if (from.offset() != 0 || count != ranks_[at(r)].program->buffers()[from.buffer()].count)
    object(name_of_op(r, id) + " reads a part of a buffer, which this world does not model");
  if (place.writers != 0)
    object(name_of_op(r, id) + " reads buffer " + std::to_string(from.buffer()) + " while it is being written");
  else if (!place.content)
    object(name_of_op(r, id) + " reads buffer " + std::to_string(from.buffer()) +
           ", which nothing has written in this round");
  ++place.readers;
}

/// Marks the target of an op as being written. (A compute op may read the buffer that it writes.)
void symbolic_world::start_writing(rank r, op_id id, std::uint64_t count) {
  const op& what = op_of(r, id);
  memory& place = memory_at(r, what.c);
  if (what.c.offset() != 0 || count != ranks_[at(r)].program->buffers()[what.c.buffer()].count)
    object(name_of_op(r, id) + " writes a part of a buffer, which this world does not model");
  int others = place.readers;
  if (what.a.exists() && &memory_at(r, what.a) == &place) --others;
  if (what.b.exists() && &memory_at(r, what.b) == &place) --others;
  if (others != 0 || place.writers != 0)
    object(name_of_op(r, id) + " writes buffer " + std::to_string(what.c.buffer()) +
           " while an op in flight uses that memory");
  ++place.writers;
}

void symbolic_world::stop_reading(rank r, region from) { --memory_at(r, from).readers; }

void symbolic_world::stop_writing(rank r, op_id id, term_ptr content) {
  memory& place = memory_at(r, op_of(r, id).c);
  --place.writers;
  place.content = std::move(content);
}

term_ptr symbolic_world::computed(rank r, const op& what) {
  const term_ptr lower = content_at(r, what.a);
  if (what.what == kernel::divide) return divided(lower, ranks_[at(r)].program->parameters_of(what).front().integer());
  return what.what == kernel::copy ? lower : combined(what.what, lower, content_at(r, what.b));
}

term_ptr symbolic_world::leaf(rank r, round_no round) const {
  auto own = std::make_shared<term>();
  own->lowest = own->highest = r;
  own->copies.assign(ranks_.size(), 0);
  own->copies[at(r)] = 1;
  own->tree = mixed(round, static_cast<std::uint64_t>(r));
  return own;
}

// --- words -------------------------------------------------------------------------------------------------

void symbolic_world::object(std::string text) {
  if (fault_.empty()) fault_ = std::move(text);
}

std::string symbolic_world::name_of_op(rank r, op_id id) const {
  const op& what = op_of(r, id);
  std::string text = "rank " + std::to_string(r) + ", round " + std::to_string(ranks_[at(r)].round) + ", op " +
                     std::to_string(id) + " (" + std::string(name_of(what.kind));
  if (is_communication(what.kind)) text += ", peer " + std::to_string(what.peer) + ", tag " + std::to_string(what.tag);
  return text + ")";
}

/// Returns a description of the ops that wait, or an empty string if all rounds have ended. Must be called when no
/// event is left.
std::string symbolic_world::stuck() const {
  for (rank r = 0; at(r) < ranks_.size(); ++r) {
    const rank_state& me = ranks_[at(r)];
    for (op_id id = 0; id < me.ops.size(); ++id) {
      if (me.is_running && me.ops[id].fired == me.round && me.ops[id].completed != me.round)
        return name_of_op(r, id) + " waits forever";
      if (me.is_running && moves_or_computes(op_of(r, id).kind) && me.ops[id].fired != me.round)
        return name_of_op(r, id) + " never fires";
    }
    if (me.is_running || me.round < plans_.size())
      return "rank " + std::to_string(r) + " stays in round " + std::to_string(me.round);
  }
  return {};
}

std::string symbolic_world::allreduce_fault(std::size_t i, const std::vector<bool>& contributors) const {
  const bool is_empty = std::find(contributors.begin(), contributors.end(), true) == contributors.end();
  for (rank r = 0; at(r) < ranks_.size(); ++r) {
    const term_ptr& mine = result(i, r);
    const std::string who = "rank " + std::to_string(r) + ", round " + std::to_string(i + 1) + ": ";
    if (!mine) return who + "no result";
    if (mine->is_null != is_empty) return who + (is_empty ? "a result of nothing" : "a null result");
    if (is_empty) continue;
    for (std::size_t c = 0; c < ranks_.size(); ++c)
      if (mine->copies[c] != (contributors[c] ? 1 : 0))
        return who + "rank " + std::to_string(c) + " is in " + std::to_string(mine->copies[c]) + " times";
    if (!mine->in_rank_order) return who + "operands are not in rank order";
    if (mine->tree != result(i, 0)->tree) return who + "another expression than rank 0's";
  }
  return {};
}

// --- planted faults ----------------------------------------------------------------------------------------

schedule_ptr without_dep(const schedule& from, op_id before, op_id after) {
  draft copy = draft_of(from);
  return drop_dep(copy, before, after) ? schedule_of(std::move(copy)) : nullptr;
}

schedule_ptr with_op(const schedule& from, op_id id, const std::function<void(op&)>& change) {
  draft copy = draft_of(from);
  change(copy.head.ops[id]);
  return schedule_of(std::move(copy));
}

bool is_implied(const schedule& in, op_id before, op_id after) {
  std::vector<bool> waits(in.ops().size(), false);
  waits[before] = true;
  for (op_id id = before; id < after; ++id) {
    if (!waits[id]) continue;
    for (const op_id next : in.successors(id))
      if (id != before || next != after) waits[next] = true;
  }
  return waits[after];
}

}  // namespace lsched::testing
