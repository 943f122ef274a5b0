#include "libsched/verify/progress.h"

#include <algorithm>
#include <string>

namespace lsched {

/// Ops complete when drain() takes them from the queue, so nothing completes while something fires.
struct progress::interpreter {
  using number = world_op;
  progress& in;

  const op& at(world_op it) const { return in.all_.at(it); }
  std::uint32_t need(world_op it) const { return in.all_.need(it); }
  std::span<const world_op> successors(world_op it) const { return in.all_.successors(it); }
  bool is_exit(world_op it) const { return in.all_.id_of(it) == in.all_.program(in.all_.rank_of(it)).exit(); }
  rank rank_of(world_op it) const { return in.all_.rank_of(it); }

  std::uint32_t add_token(world_op it, world_op) { return in.tokens_[it].add(in.round_); }
  void mark(world_op it) { in.completed_[it] = in.round_; }
  void add_outstanding(world_op, int) {}
  void exited(world_op) {}
  void enqueue(world_op it) {
    in.enabled_[it] = in.round_;
    if (!in.has_fired(it)) in.fire(it);
  }

  const guard* guard_of(world_op it, const op& what) const {
    return in.start_.guards ? in.all_.program(in.all_.rank_of(it)).guard_of(what) : nullptr;
  }
  round_no round() const { return in.start_.guards.value_or(1); }
  static std::uint64_t items_of(world_op, const op&) { return 1; }
  const round_calls& calls() const { return in.whose_; }
  static const std::vector<rank>* present() { return nullptr; }

  outcome complete_soon(world_op it) {
    in.fired_[it] = in.round_;
    in.queue_.push_back(it);
    return outcome::pending;
  }
  outcome nop(world_op it, const op&) { return complete_soon(it); }
  outcome compute(world_op it, const op&) { return complete_soon(it); }
  outcome capture(world_op it, const op&) { return complete_soon(it); }
  outcome take_signal(world_op it, const op&) { return complete_soon(it); }
  outcome pass_over(world_op it, const op&) {
    in.void_[it] = in.round_;
    return complete_soon(it);
  }
  outcome signal(world_op it, const op&) {
    if (in.is_unsent_.empty() || !in.is_unsent_[it]) in.later_.push_back(in.all_.partner(it));
    return complete_soon(it);
  }
  outcome send(world_op it, const op&) {
    in.later_.push_back(in.all_.partner(it));
    if (in.how_ == sending::eager) return complete_soon(it);
    in.fired_[it] = in.round_;
    return outcome::pending;
  }
  outcome receive(world_op it, const op&) {
    if (in.arrived_[it] == in.round_) return complete_soon(it);
    in.fired_[it] = in.round_;
    return outcome::pending;
  }
  round_no listen(world_op it, const op&) const { return in.arrived_[it] == in.round_ ? round() : 0; }
};

progress::progress(const assembly& all, sending how)
    : all_(all),
      how_(how),
      reader_(how == sending::held ? all.op_count() : 0, k_no_world_op),
      tokens_(all.op_count()),
      enabled_(all.op_count(), 0),
      arrived_(all.op_count(), 0),
      fired_(all.op_count(), 0),
      completed_(all.op_count(), 0),
      void_(all.op_count(), 0),
      hops_(all.op_count(), 0) {
  std::vector<world_op> signal_roots;
  for (world_op it = 0; it < all.op_count(); ++it) {
    const op& what = all.at(it);
    if (all.is_call(it)) calls_.push_back(it);
    if (what.kind == op_kind::capture) captures_.push_back(it);
    if (what.need == 0) (what.kind == op_kind::signal_recv ? signal_roots : roots_).push_back(it);
    if (how != sending::held || !all.program(all.rank_of(it)).is_holding()) continue;
    for (const op_id receive : {what.releases_a, what.releases_b})
      if (receive != k_no_op) add_reader(all.partner(all.number(all.rank_of(it), receive)), it);
  }
  roots_.insert(roots_.end(), signal_roots.begin(), signal_roots.end());
  if (all.size() > 0) whose_ = round_calls(all.program(0).starts(), all.size());
}

void progress::add_reader(world_op send, world_op reader) {
  if (reader_[send] != k_no_world_op) more_readers_.emplace(send, reader_[send]);
  reader_[send] = reader;
}

void progress::run(const round_start& start) {
  start_ = start;
  ++round_;
  now_ = 0;
  order_.clear();
  is_unsent_.assign(start.unsent.empty() ? 0 : all_.op_count(), false);
  for (const world_op it : start.unsent) is_unsent_[it] = true;
  whose_.open_scenario(start.is_full);
  begin();
  drain();
}

/// The callers' registers say so from the beginning.
void progress::begin() {
  const auto is_calling = [&](world_op call) {
    return !start_.is_woken &&
           (start_.callers == nullptr || (*start_.callers)[static_cast<std::size_t>(all_.rank_of(call))]);
  };
  for (const world_op it : calls_)
    if (is_calling(it)) arrived_[it] = round_;
  interpreter me{*this};
  round_player(me).begin(roots_);
  if (!start_.is_woken) return;
  for (const world_op it : captures_)
    if (!has_fired(it)) fire(it);
}

/// All that completes within a hop before anything that takes another one.
void progress::drain() {
  std::vector<world_op> arriving;
  for (;;) {
    while (!queue_.empty()) {
      const world_op it = queue_.back();
      queue_.pop_back();
      finish(it);
    }
    if (later_.empty()) return;
    arriving.clear();
    arriving.swap(later_);
    ++now_;
    for (const world_op it : arriving) arrive(it);
  }
}

void progress::fire(world_op it) {
  interpreter me{*this};
  round_player(me).fire(it);
}

/// A message or a signal.
void progress::arrive(world_op it) {
  arrived_[it] = round_;
  if (all_.kind(it) == op_kind::recv) {
    if (has_fired(it) && !was_void(it)) queue_.push_back(it);
  } else if (!has_fired(it) && enabled_[it] == round_) {
    interpreter me{*this};
    round_player(me).hear(it);
  }
}

void progress::finish(world_op it) {
  hops_[it] = now_;
  order_.push_back(it);
  if (start_.stops_at_captures && all_.kind(it) == op_kind::capture) {
    completed_[it] = round_;
    return;
  }
  completed_[it] = round_;  // before sends that wait for it are looked at
  if (how_ != sending::eager) release_sends(it);
  interpreter me{*this};
  round_player(me).finish(it);
}

/// Those that may have waited for this receive, or for this reader.
void progress::release_sends(world_op it) {
  if (all_.kind(it) == op_kind::recv && !was_void(it)) release(all_.partner(it));
  if (all_.kind(it) != op_kind::compute) return;
  for (const op_id receive : {all_.at(it).releases_a, all_.at(it).releases_b})
    if (receive != k_no_op) release(all_.partner(all_.number(all_.rank_of(it), receive)));
}

/// One that still reads the payload, or is going to.
world_op progress::reader_of(world_op send) const {
  const world_op last = how_ == sending::held ? reader_[send] : k_no_world_op;
  if (last == k_no_world_op || !has_completed(last)) return last;
  const auto [begin, end] = more_readers_.equal_range(send);
  const auto other = std::find_if(begin, end, [&](const auto& it) { return !has_completed(it.second); });
  return other == end ? k_no_world_op : other->second;
}

/// Its receive, or a reader of its payload, has completed: all may be needed.
void progress::release(world_op send) {
  if (was_void(send) || reader_of(send) != k_no_world_op || has_completed(send) || !has_completed(all_.partner(send)))
    return;
  completed_[send] = round_;  // so that it is not queued again
  queue_.push_back(send);
}

// --- explanation -------------------------------------------------------------------------------------------

/// One thing that would have to happen first, if it is an op's.
std::optional<world_op> progress::awaited(world_op it) const {
  const op& what = all_.at(it);
  const rank r = all_.rank_of(it);
  if (has_fired(it) || (what.kind == op_kind::signal_recv && (what.need == 0 || enabled_[it] == round_))) {
    const world_op partner = all_.partner(it);
    if (partner == k_no_world_op || !has_completed(partner) || what.kind != op_kind::send)
      return partner == k_no_world_op ? std::nullopt : std::optional(partner);
    const world_op reader = reader_of(it);
    return reader != k_no_world_op ? std::optional(reader) : std::nullopt;
  }
  for (const op_id before : all_.predecessors(it))
    if (!has_completed(all_.number(r, before))) return all_.number(r, before);
  return std::nullopt;
}

std::string progress::words_for_wait(world_op it) const {
  constexpr std::size_t k_most_links = 12;
  std::vector<world_op> chain{it};
  std::string text = all_.words_for(it);
  for (auto next = awaited(it); next; next = awaited(*next)) {
    const bool is_circle = std::find(chain.begin(), chain.end(), *next) != chain.end();
    text += (chain.size() == 1 ? " waits for " : ", which waits for ") + all_.words_for(*next);
    if (is_circle) return text + ": a circle";
    chain.push_back(*next);
    if (chain.size() > k_most_links) return text + " …";
  }
  if (all_.is_call(chain.back())) return text + ", which is the call of an application that does not";
  return text + (chain.size() == 1 ? " never fires" : ", which never fires");
}

}  // namespace lsched
