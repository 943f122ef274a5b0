#include "libsched/verify/progress.h"

#include <algorithm>
#include <map>
#include <string>

namespace lsched {

/// Ops complete when drain() removes them from the queue, so no op completes while another op fires.
struct progress::interpreter {
  using number = world_op;
  progress& in;

  const op& at(world_op id) const { return in.all_.at(id); }
  std::uint32_t need(world_op id) const { return in.all_.need(id); }
  std::span<const world_op> successors(world_op id) const { return in.all_.successors(id); }
  bool is_exit(world_op id) const { return in.all_.is_exit(id); }
  rank rank_of(world_op id) const { return in.all_.rank_of(id); }

  std::uint32_t add_token(world_op id, world_op) { return in.ops_[id].tokens.add(in.round_); }
  void mark(world_op id) { in.ops_[id].completed = in.round_; }
  void add_outstanding(world_op, int) {}
  void exited(world_op) {}
  void enqueue(world_op id) {
    in.ops_[id].enabled = in.round_;
    if (!in.has_fired(id)) round_player(*this).fire(id);
  }

  const guard* guard_of(world_op id, const op& o) const {
    return in.start_.guards ? in.all_.program(in.all_.rank_of(id)).guard_of(o) : nullptr;
  }
  round_no round() const { return in.start_.guards.value_or(1); }
  static std::uint64_t items_of(world_op, const op&) { return 1; }
  const round_calls& calls() const { return in.whose_; }
  const std::vector<rank>* present() const { return in.start_.present; }

  outcome complete_soon(world_op id) {
    in.ops_[id].fired = in.round_;
    in.queue_.push_back(id);
    return outcome::pending;
  }
  outcome nop(world_op id, const op&) { return complete_soon(id); }
  outcome compute(world_op id, const op&) { return complete_soon(id); }
  outcome capture(world_op id, const op&) { return complete_soon(id); }
  outcome take_signal(world_op id, const op&) { return complete_soon(id); }
  outcome pass_over(world_op id, const op&) {
    in.ops_[id].passed_over = in.round_;
    return complete_soon(id);
  }
  outcome signal(world_op id, const op&) {
    if (in.is_unsent_.empty() || !in.is_unsent_[id]) in.later_.push_back(in.all_.partner(id));
    return complete_soon(id);
  }
  outcome send(world_op id, const op&) {
    in.later_.push_back(in.all_.partner(id));
    if (in.how_ == sending::eager || in.has_slot(id)) return complete_soon(id);
    in.ops_[id].fired = in.round_;
    return outcome::pending;
  }
  outcome receive(world_op id, const op&) {
    if (in.has_arrived(id)) return complete_soon(id);
    in.ops_[id].fired = in.round_;
    return outcome::pending;
  }
  round_no listen(world_op id, const op&) const { return in.has_arrived(id) ? round() : 0; }
};

progress::progress(const assembly& all, sending how, const buffering& buffers)
    : all_(all), how_(how), ops_(all.op_count()) {
  for (world_op id = 0; id < all.op_count(); ++id) {
    const op& o = all.at(id);
    if (all.is_call(id)) calls_.push_back(id);
    if (o.kind == op_kind::capture) captures_.push_back(id);
    if (o.need == 0 && o.kind != op_kind::signal_recv) roots_.push_back(id);
    if (how != sending::held || !all.program(all.rank_of(id)).is_holding() || o.kind != op_kind::compute) continue;
    for (const op_id receive : {o.releases_a, o.releases_b})
      if (receive != k_no_op) readers_.emplace_back(send_to(all.rank_of(id), receive), id);
  }
  std::ranges::sort(readers_);
  if (how != sending::eager && buffers.exists()) take_slots(buffers);
  if (all.size() > 0) whose_ = round_calls(all.program(0).starts(), all.size());
}

void progress::take_slots(const buffering& buffers) {
  is_buffered_.assign(all_.op_count(), false);
  slot_of_.assign(all_.op_count(), k_no_world_op);
  next_in_slot_ = slot_of_;
  cleared_.assign(all_.op_count(), 0);
  std::map<std::pair<rank, rank>, std::vector<world_op>> sends;
  for (world_op id = 0; id < all_.op_count(); ++id) {
    const op& o = all_.at(id);
    const schedule& mine = all_.program(all_.rank_of(id));
    if (o.kind != op_kind::send || (buffers.bytes > 0 && most_bytes(mine, o) > buffers.bytes)) continue;
    is_buffered_[id] = true;
    if (buffers.slots > 0) sends[{all_.rank_of(id), o.peer}].push_back(id);
  }
  for (const auto& [pair, in_order] : sends)
    for (std::size_t i = buffers.slots; i < in_order.size(); ++i) {
      slot_of_[in_order[i]] = in_order[i - buffers.slots];
      next_in_slot_[in_order[i - buffers.slots]] = in_order[i];
    }
}

/// Returns true if a send that has fired can complete without a wait.
bool progress::has_slot(world_op send) const {
  if (is_buffered_.empty() || !is_buffered_[send]) return false;
  return slot_of_[send] == k_no_world_op || is_cleared(slot_of_[send]);
}

void progress::run(const round_start& start) {
  start_ = start;
  ++round_;
  now_ = 0;
  order_.clear();
  is_unsent_.assign(start.unsent.empty() ? 0 : all_.op_count(), false);
  for (const world_op id : start.unsent) is_unsent_[id] = true;
  whose_.open_scenario(start.is_full);
  if (!start.is_woken)  // the calls are made before the round begins
    for (const world_op call : calls_)
      if (is_made(call)) ops_[call].arrived = round_;
  interpreter me{*this};
  round_player(me).begin(roots_);
  for (const world_op call : calls_)
    if (is_armed(call) && !has_fired(call)) round_player(me).hear(call);
  if (start.is_woken)
    for (const world_op id : captures_)
      if (!has_fired(id)) round_player(me).fire(id);
  drain();
}

/// Returns true if the event of the call op happens in this round, whether or not the call counts.
bool progress::is_made(world_op call) const {
  if (all_.at(call).tag == k_grace_tag) return start_.passes_grace;
  const bool is_departure = is_engine_call(all_.at(call));
  return is_departure || start_.callers == nullptr || (*start_.callers)[static_cast<std::size_t>(all_.rank_of(call))];
}

/// Completes ops with fewer hops first, so hops_to() returns the length of the shortest chain.
void progress::drain() {
  std::vector<world_op> arriving;
  for (;;) {
    while (!queue_.empty()) {
      const world_op id = queue_.back();
      queue_.pop_back();
      finish(id);
    }
    if (later_.empty()) return;
    arriving.clear();
    arriving.swap(later_);
    ++now_;
    for (const world_op id : arriving) arrive(id);
  }
}

/// Delivers a message or a signal.
void progress::arrive(world_op id) {
  ops_[id].arrived = round_;
  if (all_.kind(id) == op_kind::recv) {
    if (has_fired(id) && !was_void(id)) queue_.push_back(id);
  } else if (!has_fired(id) && is_armed(id)) {
    interpreter me{*this};
    round_player(me).hear(id);
  }
}

void progress::finish(world_op id) {
  ops_[id].hops = now_;
  order_.push_back(id);
  ops_[id].completed = round_;  // must be set before the sends that wait for this op are checked
  if (start_.stops_at_captures && all_.kind(id) == op_kind::capture) return;
  if (how_ != sending::eager && all_.kind(id) == op_kind::recv && !was_void(id)) release(all_.partner(id));
  if (has_slots() && all_.kind(id) == op_kind::recv) clear_slot(all_.partner(id));
  if (how_ != sending::eager && all_.kind(id) == op_kind::compute)
    for (const op_id receive : {all_.at(id).releases_a, all_.at(id).releases_b}) {
      if (receive == k_no_op) continue;
      release(send_to(all_.rank_of(id), receive));
      if (has_slots()) clear_slot(send_to(all_.rank_of(id), receive));
    }
  interpreter me{*this};
  round_player(me).finish(id);
}

/// Returns an op that still has to read the payload of a send, or k_no_world_op.
world_op progress::reader_of(world_op send) const {
  auto each = std::ranges::lower_bound(readers_, send, {}, &std::pair<world_op, world_op>::first);
  while (each != readers_.end() && each->first == send && has_completed(each->second)) ++each;
  return each == readers_.end() || each->first != send ? k_no_world_op : each->second;
}

/// Frees the buffer slot of a payload that was received and read. The next send can use the slot only if the payloads
/// of all earlier sends of the slot were received and read, even of sends that completed without the slot.
void progress::clear_slot(world_op send) {
  while (send != k_no_world_op && !is_cleared(send)) {
    const bool is_received = has_completed(all_.partner(send)) && reader_of(send) == k_no_world_op;
    if (!is_received || (slot_of_[send] != k_no_world_op && !is_cleared(slot_of_[send]))) return;
    cleared_[send] = round_;
    send = next_in_slot_[send];
    if (send == k_no_world_op || !has_fired(send) || was_void(send) || has_completed(send)) continue;
    ops_[send].completed = round_;  // marks the send, so that it is not queued again
    queue_.push_back(send);
  }
}

/// Completes a send if its receive and all readers of its payload have completed.
void progress::release(world_op send) {
  if (was_void(send) || reader_of(send) != k_no_world_op || has_completed(send) || !has_completed(all_.partner(send)))
    return;
  ops_[send].completed = round_;  // marks the send, so that it is not queued again
  queue_.push_back(send);
}

// --- explanation -------------------------------------------------------------------------------------------

/// Returns an op for which op `id` waits, or k_no_world_op.
world_op progress::awaited(world_op id) const {
  const op& o = all_.at(id);
  if (has_fired(id) || (o.kind == op_kind::signal_recv && is_armed(id))) {
    const world_op partner = all_.partner(id);
    const bool is_taken = partner != k_no_world_op && o.kind == op_kind::send && has_completed(partner);
    return is_taken ? reader_of(id) : partner;
  }
  for (const op_id before : all_.predecessors(id))
    if (const world_op dep = all_.number(all_.rank_of(id), before); !has_completed(dep)) return dep;
  return k_no_world_op;
}

std::string progress::words_for_wait(world_op id) const {
  constexpr std::size_t k_most_links = 12;
  std::vector<world_op> chain{id};
  std::string text = all_.words_for(id);
  for (world_op next = awaited(id); next != k_no_world_op; next = awaited(next)) {
    const bool is_circle = std::find(chain.begin(), chain.end(), next) != chain.end();
    text += (chain.size() == 1 ? " waits for " : ", which waits for ") + all_.words_for(next);
    if (is_circle) return text + ": a cycle";
    chain.push_back(next);
    if (chain.size() > k_most_links) return text + " …";
  }
  if (all_.is_call(chain.back())) return text + ", which is a call that the application does not make";
  return text + (chain.size() == 1 ? " never fires" : ", which never fires");
}

}  // namespace lsched
