// This file handles the state of peers: the rounds that they have entered, their waits, and their loss.
#include <unistd.h>

#include <algorithm>

#include "libsched/transport/quiet_thread.h"
#include "libsched/transport/shm/shm_edge.h"
#include "libsched/transport/shm/shm_endpoint.h"

namespace lsched {
namespace {

/// Maximum time from the moment when a process loses its memory until other processes can detect its end.
constexpr std::chrono::milliseconds k_longest_exit{50};

}  // namespace

/// Returns true if the peer's process number is valid in this process's pid namespace.
bool shm_endpoint::has_visible_process(rank peer) const {
  const process_id process = segment_->page(peer).process.load();
  return process.number != 0 && process.space == process_.space;
}

bool shm_endpoint::has_ended(rank peer, bool is_awaited) const {
  const shm_page& page = segment_->page(peer);
  const process_id process = page.process.load();
  if (process.number == 0 || process == process_) return false;
  if (page.life.has_ended()) return true;
  if (!has_visible_process(peer)) return false;
  if (page.life.is_held()) return is_awaited && is_killed(process.number);
  return is_gone(process.number) || (is_awaited && state_of_process(process.number) == rank_state::ending);
}

/// The ranks form a ring. Returns the next rank in the ring that is not closed, not lost and not in this process.
/// Returns this rank if there is no such rank.
rank shm_endpoint::find_successor() const {
  for (rank i = 1; i < segment_->ranks(); ++i) {
    const rank peer = (self_ + i) % segment_->ranks();
    const shm_page& page = segment_->page(peer);
    const bool is_there = page.state_of_rank.load() != shm_page::closed && !is_in_this_process(peer);
    if (is_there && !segment_->is_lost(peer)) return peer;
  }
  return self_;
}

// If the system permits life words, the watcher thread holds this rank's life word before the rank counts as open. So
// the end of an open rank is detected even if the process calls exec and continues to exist.
std::optional<failure> shm_endpoint::begin_to_watch() {
  watcher_ = start_quietly("lsched-watcher", [this] { watch_peers(); });
  is_watching_.wait(false);
  const bool is_seen_otherwise = process_.space == segment_->creator().space && can_find_processes();
  if (page_->life.is_held() || is_seen_otherwise) return std::nullopt;
  return failure{
      status::unsupported,
      "this process may not use set_robust_list, and neither kill nor /proc finds the processes of the other "
      "ranks, so no rank would detect the death of another. Allow one of these in the sandbox",
      self_};
}

// Watches the successor in the ring. A rank is lost if it ends without closing. While a loss is not recorded, at least
// one survivor has a lost rank as its successor. So each loss is detected.
void shm_endpoint::watch_peers() {
  {
    const life_word::holder alive(page_->life);
    is_watching_.store(true);
    is_watching_.notify_one();
    while (!stops_watching_.load()) {
      const rank peer = find_successor();
      const shm_page& page = segment_->page(peer);
      watched_.store(peer);
      // The word must be read before the state, because a peer that closes changes the state first, and then the word.
      const std::uint32_t seen = page.life.value();
      if (peer != self_ && page.state_of_rank.load() == shm_page::closed) continue;
      if (page.life.has_ended()) {
        segment_->record_lost(peer);
      } else if (!stops_watching_.load()) {
        page.life.await_change(seen);
      }
    }
  }
  is_watching_.store(false);
}

void shm_endpoint::stop_watching() {
  stops_watching_.store(true);
  for (; is_watching_.load(); usleep(50))
    if (const rank peer = watched_.load(); peer != k_no_rank) segment_->page(peer).life.wake();
  watcher_.join();
}

std::atomic<round_no>* shm_endpoint::put_on_record(std::uint32_t id, std::uint64_t number, std::string_view label) {
  shm_block& head = *blocks_.at(id).head;
  if (free_places_.empty() && next_place_ == shm_record::k_places) return &head.entered;
  if (free_places_.empty()) free_places_.push_back(next_place_++);
  const std::uint32_t place = free_places_.back();
  free_places_.pop_back();
  record_->entered[place].store(0);
  record_->set_label(place, label);
  record_->number[place].store(number + 1);
  head.place_on_record = place;
  return &record_->entered[place];
}

std::optional<round_no> shm_endpoint::entered_by(rank who, std::uint32_t id) const {
  const auto found = blocks_.find(id);
  if (found == blocks_.end() || found->second.of_ranks.empty()) return std::nullopt;
  const std::size_t member = index_of(who, found->second);
  if (member == found->second.of_ranks.size()) return std::nullopt;
  const shm_block& theirs = *found->second.of_ranks[member];
  const std::uint32_t place = theirs.place_on_record;
  return place < shm_record::k_places ? segment_->record(who).entered[place].load() : theirs.entered.load();
}

void shm_endpoint::note_wait(const wait_note& what) { record_->note(what); }

wait_note shm_endpoint::wait_of(rank who) const { return segment_->record(who).wait(); }

rank_state shm_endpoint::state_of(rank who) const {
  const shm_page& page = segment_->page(who);
  const process_id process = page.process.load();
  const bool has_closed = page.state_of_rank.load() == shm_page::closed;
  if (process.number == 0 || process == process_ || has_closed) return rank_state::unknown;
  if (page.life.has_ended()) return rank_state::ending;
  return has_visible_process(who) ? state_of_process(process.number) : rank_state::unknown;
}

// Searches for a lost peer and returns the first recorded loss. Other ranks may have ended or closed only because of
// that loss, so they are not reported.
rank shm_endpoint::find_dead_peer() {
  if (const rank lost = find_lost_peer(); lost != k_no_rank) segment_->record_lost(lost);
  if (const rank first = segment_->lost_after(0); first != k_no_rank) return first;
  if (culprit_ != k_no_rank && std::chrono::steady_clock::now() - culprit_since_ > k_longest_exit)
    health_ = status::transport;  // all peers are alive, so the system denies access to the memory
  return k_no_rank;
}

// Returns a dead peer rather than a closed peer, because ranks that detect a death close, too.
rank shm_endpoint::find_lost_peer() {
  find_awaited_peers();
  for (rank peer = 0; peer < segment_->ranks(); ++peer) {
    const bool is_awaited = expected_of_[static_cast<std::size_t>(peer)] == expected::something;
    // The end must be checked before the state, because a peer may close and then end.
    if (!segment_->is_lost(peer) && has_ended(peer, is_awaited) &&
        segment_->page(peer).state_of_rank.load() != shm_page::closed)
      return peer;
  }
  for (rank peer = 0; peer < segment_->ranks(); ++peer)
    if (expected_of_[static_cast<std::size_t>(peer)] == expected::in_vain && !segment_->is_lost(peer)) return peer;
  return k_no_rank;
}

// Finds the peers whose messages are awaited. The flags for "has closed" and "has left the instance" must be read
// before the peer's word. Otherwise a message that the peer sent just before it closed or left could be missed.
void shm_endpoint::find_awaited_peers() {
  std::ranges::fill(expected_of_, expected::nothing);
  for (const watch& waiting : watches_) {
    const link_state& state = links_[waiting.link];
    const rank peer = state.spec.peer;
    const bool has_closed = segment_->page(peer).state_of_rank.load() == shm_page::closed;
    const bool has_left = state.left != nullptr && state.left->load(std::memory_order_acquire) != 0;
    if (waiting.word->load() >= waiting.goal) continue;
    const bool is_given_up = blocks_.at(state.instance).head->closed.is_set();  // set by the peer before it left
    if (has_left && !is_given_up) report_cancelled({state.instance, {peer, status::peer}, true});
    expected& known = expected_of_[static_cast<std::size_t>(peer)];
    if (known != expected::in_vain)
      known = has_closed && (!has_left || is_given_up) ? expected::in_vain : expected::something;
  }
  for (const shm_board* one : boards_)
    for (const rank peer : one->awaited())
      if (expected& known = expected_of_[static_cast<std::size_t>(peer)]; known == expected::nothing)
        known = expected::something;
}

}  // namespace lsched
