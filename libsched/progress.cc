#include "libsched/progress.h"

#include <algorithm>
#include <string>

namespace lsched {

progress::progress(const assembly& all, sending how)
    : all_(all),
      how_(how),
      reader_(how == sending::held ? all.op_count() : 0, k_no_world_op),
      tokens_(all.op_count()),
      enabled_(all.op_count(), 0),
      arrived_(all.op_count(), 0),
      fired_(all.op_count(), 0),
      completed_(all.op_count(), 0),
      hops_(all.op_count(), 0) {
  for (world_op it = 0; it < all.op_count(); ++it) {
    const op& what = all.at(it);
    if (all.is_call(it)) calls_.push_back(it);
    if (what.kind == op_kind::capture) captures_.push_back(it);
    if (what.need == 0 && what.kind != op_kind::signal_recv) roots_.push_back(it);
    if (how != sending::held || !all.program(all.rank_of(it)).is_holding()) continue;
    for (const op_id receive : {what.releases_a, what.releases_b})
      if (receive != k_no_op) add_reader(all.partner(all.number(all.rank_of(it), receive)), it);
  }
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
  begin();
  drain();
}

void progress::begin() {
  for (const world_op it : roots_) enable(it);
  for (const world_op it : calls_)
    if (!start_.is_woken && has_called(it)) arrive(it);
  if (!start_.is_woken) return;
  for (const world_op it : captures_)
    if (!has_fired(it)) fire(it);
}

bool progress::has_called(world_op call) const {
  const bool counts = (all_.at(call).tag == k_full_call_tag) == start_.is_full;
  return counts && (start_.callers == nullptr || (*start_.callers)[static_cast<std::size_t>(all_.rank_of(call))]);
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

/// It has its tokens. Receives of signals also wait for their register.
void progress::enable(world_op it) {
  if (has_fired(it)) return;
  enabled_[it] = round_;
  if (all_.kind(it) != op_kind::signal_recv || arrived_[it] == round_) fire(it);
}

void progress::fire(world_op it) {
  fired_[it] = round_;
  const op_kind kind = all_.kind(it);
  const bool is_sent = is_unsent_.empty() || !is_unsent_[it];
  if ((kind == op_kind::send || kind == op_kind::signal_send) && is_sent) later_.push_back(all_.partner(it));
  const bool waits =
      (kind == op_kind::send && how_ != sending::eager) || (kind == op_kind::recv && arrived_[it] != round_);
  if (!waits) queue_.push_back(it);
}

/// A message, a signal, or the application's call.
void progress::arrive(world_op it) {
  arrived_[it] = round_;
  if (all_.kind(it) == op_kind::recv) {
    if (has_fired(it)) queue_.push_back(it);
  } else if (!has_fired(it) && (all_.need(it) == 0 || enabled_[it] == round_)) {
    fire(it);
  }
}

void progress::finish(world_op it) {
  completed_[it] = round_;
  hops_[it] = now_;
  order_.push_back(it);
  if (how_ != sending::eager) release_sends(it);
  if (start_.stops_at_captures && all_.kind(it) == op_kind::capture) return;
  for (const world_op after : all_.successors(it))
    if (deliver(tokens_[after], all_.need(after), round_)) enable(after);
}

/// Those that may have waited for this receive, or for this reader.
void progress::release_sends(world_op it) {
  if (all_.kind(it) == op_kind::recv) release(all_.partner(it));
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
  if (reader_of(send) != k_no_world_op || has_completed(send) || !has_completed(all_.partner(send))) return;
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
