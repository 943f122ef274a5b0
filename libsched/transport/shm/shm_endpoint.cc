#include "libsched/transport/shm/shm_endpoint.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "libsched/transport/shm/shm_edge.h"

namespace lsched {

result<std::unique_ptr<shm_endpoint>> shm_endpoint::open(std::shared_ptr<shm_segment> segment, rank self,
                                                         const shm_options& options) {
  if (self < 0 || self >= segment->ranks())
    return failure{status::argument,
                   "rank " + std::to_string(self) + " is outside a world of " + std::to_string(segment->ranks()) +
                       " ranks: use 0 to " + std::to_string(segment->ranks() - 1),
                   self};
  process_id nobody;  // the first endpoint that stores its process in the page gets the rank
  shm_page& page = segment->page(self);
  if (!page.process.compare_exchange_strong(nobody, own_process()))
    return failure{status::state,
                   "rank " + std::to_string(self) +
                       " has joined this world already, but can join only once: open the world once in each process",
                   self};
  std::unique_ptr<shm_endpoint> made(new shm_endpoint(std::move(segment), self, options));
  page.probe.store(made->probe_.address());
  made->record_->rank_in_world.store(self);
  made->record_->process_start.store(start_of_process(made->process_.number));
  made->record_->process.store(made->process_.number);
  if (options.watches_processes && made->segment_->ranks() > 1)
    if (auto why = made->begin_to_watch()) return *why;
  made->segment_->enter(self, shm_page::open);
  return made;
}

shm_endpoint::shm_endpoint(std::shared_ptr<shm_segment> segment, rank self, const shm_options& options)
    : endpoint({self, segment->ranks()}, "shm", {this, this, this, this}),
      segment_(std::move(segment)),
      heap_(segment_, self, options.touches_memory),
      self_(self),
      process_(own_process()),
      page_(&segment_->page(self)),
      record_(&segment_->record(self)),
      options_(options),
      reach_(static_cast<std::size_t>(segment_->ranks())),
      ringer_(static_cast<std::size_t>(segment_->ranks())),
      expected_of_(static_cast<std::size_t>(segment_->ranks())) {}

shm_endpoint::~shm_endpoint() { close(); }

// A forked child is not a rank, and its watcher thread does not run.
void shm_endpoint::close() {
  if (getpid() != process_.number) {
    if (watcher_.joinable()) watcher_.detach();
    return;
  }
  if (record_->closed_ns.load() == 0) record_->closed_ns.store(monotonic_ns());
  page_->state_of_rank.store(shm_page::closed);
  if (watcher_.joinable()) stop_watching();
}

// --- memory that is never freed ----------------------------------------------------------------------------------

// Stores the length last, so that a peer that reads the length also finds the offset.
bool shm_endpoint::announce_kept(const std::byte* memory, std::uint64_t bytes) {
  for (auto& part : page_->kept) {
    if (part.bytes.load() != 0) continue;
    part.offset.store(segment_->offset_of(memory));
    part.bytes.store(bytes);
    return true;
  }
  return false;
}

// Values from peers are validated before use.
std::span<const std::byte> shm_endpoint::kept_at(const std::byte* place, std::uint64_t bytes) const {
  const std::uint64_t offset = segment_->offset_of(place);
  const rank owner = segment_->region_of(offset);
  if (owner == k_no_rank) return {};
  for (const auto& part : segment_->page(owner).kept) {
    const std::uint64_t length = part.bytes.load(), begin = part.offset.load();
    if (length == 0) return {};
    const bool holds = offset >= begin && bytes <= length && offset - begin <= length - bytes;
    if (holds && segment_->holds(owner, begin, length)) return {segment_->at(begin), length};
  }
  return {};
}

bool shm_endpoint::expose(std::uint32_t number, const exposed_area& what) {
  exposed_area known = what;
  known.serial = ++areas_shown_;
  page_->areas[number].show(known);
  return true;
}

std::optional<exposed_area> shm_endpoint::area_of(rank who, std::uint32_t number) const {
  return number < exposed_area::k_most ? segment_->page(who).areas[number].what() : std::nullopt;
}

// --- cancellation -----------------------------------------------------------------------------------------------

// Several ranks may cancel at the same time. The reason that is recorded first in the block of the first rank applies
// to all ranks. This function copies that reason to all blocks.
void shm_endpoint::cancel(std::uint32_t id, const end_reason& reason) {
  const block& ours = blocks_.at(id);
  const end_reason first = (ours.of_ranks.empty() ? ours.head : ours.of_ranks.front())->closed.record(reason);
  for (shm_block* const theirs : ours.of_ranks) theirs->closed.record(first);
  segment_->wake_ranks();
}

void shm_endpoint::close_to_readers(std::uint32_t id, const end_reason& reason) {
  blocks_.at(id).head->closed.record(reason);
}

void shm_endpoint::find_bad_news() {
  news_seen_ = segment_->bad_news().load();
  for (auto& [id, region] : blocks_) {
    if (region.head->closed.is_set()) report_end(id, region, region.head->closed.reason());
  }
  for (rank lost; (lost = segment_->lost_after(losses_seen_)) != k_no_rank; ++losses_seen_) report_lost(lost);
}

void shm_endpoint::report_end(std::uint32_t id, block& region, const end_reason& reason) {
  if (!std::exchange(region.is_reported, true)) report_cancelled({id, reason});
}

void shm_endpoint::abandon(std::uint32_t id) {
  for (const link_id link : blocks_.at(id).links) {
    link_state& state = links_[link];
    disarm(link);
    if (state.spec.outgoing || std::exchange(state.exposed, 0) == 0 || state.claim == nullptr) continue;
    state.claim->let_go();  // `consumed` is not written, so that the sender's round does not complete
  }
}

status shm_endpoint::check_readers(std::uint32_t id, rank* reader) {
  for (const link_id link : blocks_.at(id).links) {
    const link_state& state = links_[link];
    if (!state.spec.outgoing || state.exposed == 0 || !state.claim->is_held()) continue;
    *reader = state.spec.peer;
    if (!has_ended(*reader, true)) return status::pending;
  }
  return status::ok;
}

// --- data path: sending -----------------------------------------------------------------------------------------

bool shm_endpoint::send(link_id link, round_no round, const message& what) {
  link_state& state = links_[link];
  if (state.credits && round > 2 && state.word->load() < round - 2) {
    state.delayed = what;
    state.delayed_round = round;
    add_watch(link, state.word, round - 2, awaited::credit);
    return false;
  }
  return transmit(link, round, what);
}

// Publishes all earlier stores by a release store to `word`, which a polling peer reads. flush() wakes a sleeping peer.
void shm_endpoint::publish(link_state& state, std::atomic<std::uint64_t>& word, round_no round) {
  word.store(round, std::memory_order_release);
  ringer_.owe(static_cast<std::size_t>(state.spec.peer), *state.peer_bell);
}

// Writes a message to the peer's cell. Returns true if the source buffer may be reused at once.
bool shm_endpoint::transmit(link_id link, round_no round, const message& what) {
  link_state& state = links_[link];
  shm_cell& cell = *state.cells[round % 2];
  if (what.shown != 0) return show(state, link, round, what);
  const bool exposed = !what.null && what.bytes > std::min(k_eager_bytes, state.read_above);
  const bool is_read = exposed && state.read_above != k_never && !heap_.owns(what.data, what.bytes);
  if (!exposed && !what.null && what.bytes > 0) std::memcpy(cell.eager(what.bytes), what.data, what.bytes);
  // The header is written last and without interruption, because the peer polls the cache line of the header. A poll
  // between two stores would move the line to the peer's core and back.
  cell.what.bytes = what.bytes;
  cell.what.tally = what.tally;
  cell.what.null = what.null ? 1 : 0;
  cell.what.place = payload_place::cell;
  state.exposed = is_read || (exposed && heap_.owns(what.data, what.bytes)) ? round : 0;
  if (is_read) {
    cell.what.place = payload_place::process;
    cell.what.source = reinterpret_cast<std::uintptr_t>(what.data);
  } else if (exposed) {
    const std::byte* const shown = find_or_stage(state, round, what);
    if (shown == nullptr) return false;
    cell.what.place = payload_place::segment;
    cell.what.source = segment_->offset_of(shown);
  }
  publish(state, cell.stamp, round);
  if (exposed) add_watch(link, state.word, round, awaited::consumed);
  return !exposed;
}

// Exposes device memory until the receiver has read it. Always returns false.
bool shm_endpoint::show(link_state& state, link_id link, round_no round, const message& what) {
  shm_cell& cell = *state.cells[round % 2];
  cell.what = {what.bytes, what.shown, what.tally, 0, payload_place::device};
  state.exposed = round;
  publish(state, cell.stamp, round);
  add_watch(link, state.word, round, awaited::consumed);
  return false;
}

// Returns the location of the message in this rank's region. This is the source itself, or a staging copy, which edges
// may share. No peer still reads the previous staging copy, because an exposed send completes only when its message is
// consumed.
const std::byte* shm_endpoint::find_or_stage(link_state& state, round_no round, const message& what) {
  if (heap_.owns(what.data, what.bytes)) return what.data;
  staging_area& copy = *state.staging;
  if (copy.bytes < what.bytes && !reserve(copy, what.bytes)) return nullptr;
  if (copy.round != round) {
    flush();  // wakes peers before a long copy
    std::memcpy(copy.memory, what.data, what.bytes);
    copy.round = round;
  }
  return copy.memory;
}

// Enlarges a staging area. No peer still reads the old area (find_or_stage). If no memory is left, the send never
// completes, and all instances fail.
bool shm_endpoint::reserve(staging_area& copy, std::uint64_t bytes) {
  std::byte* const memory = heap_.allocate(bytes);
  if (memory == nullptr) {
    health_ = status::no_memory;
    return false;
  }
  if (copy.memory != nullptr) heap_.deallocate(copy.memory);
  copy.memory = memory;
  copy.bytes = bytes;
  return true;
}

void shm_endpoint::signal(link_id link, round_no round) {
  link_state& state = links_[link];
  if (state.signalled >= round) return;
  state.signalled = round;
  publish(state, *state.word, round);
}

// --- data path: receiving ---------------------------------------------------------------------------------------

bool shm_endpoint::receive(link_id link, round_no round, message_target into, arrival& out) {
  link_state& state = links_[link];
  const shm_cell& cell = *state.cells[round % 2];
  if (cell.stamp.load() >= round)
    return state.spec.announced ? announce(link, round, out) : take(link, round, into, out);
  state.into = into;
  add_watch(link, &cell.stamp, round, awaited::message);
  return false;
}

namespace {

template <class T>
T read_once(T& word) {
  return std::atomic_ref<T>(word).load(std::memory_order_relaxed);
}

}  // namespace

bool shm_endpoint::is_sound(const link_state& state, const shm_message& what) const {
  if (what.null != 0) return true;
  if (what.bytes > state.spec.capacity) return false;
  switch (what.place) {
    case payload_place::cell: return what.bytes <= k_eager_bytes;
    case payload_place::segment: return segment_->holds(state.spec.peer, what.source, what.bytes);
    case payload_place::process: return state.read_above != k_never && state.claim != nullptr;
    case payload_place::device: return state.spec.reads_device && state.claim != nullptr && what.source != 0;
  }
  return false;
}

// Reads each word of the peer once, because the peer could change a word between the check and the use.
shm_message shm_endpoint::read_header(const link_state& state, shm_cell& cell) {
  shm_message what{.bytes = read_once(cell.what.bytes),
                   .source = 0,
                   .tally = cell.what.tally,
                   .null = read_once(cell.what.null),
                   .place = read_once(cell.what.place)};
  if (what.place != payload_place::cell) what.source = read_once(cell.what.source);
  if (!is_sound(state, what)) {
    health_ = status::transport;
    culprit_ = state.spec.peer;
    what.bytes = 0;
  }
  return what;
}

bool shm_endpoint::announce(link_id link, round_no round, arrival& out) {
  const shm_message what = read_header(links_[link], *links_[link].cells[round % 2]);
  out = {nullptr, what.bytes, what.tally, what.null != 0};
  return true;
}

// take() reads the header again. If the header now announces more bytes than fit into the target, the message is
// dropped.
bool shm_endpoint::fetch(link_id link, round_no round, message_target into, arrival& out) {
  return take(link, round, into, out);
}

/// Claims the payload in the sender's memory. If the sender has withdrawn its memory, reports the end of the instance
/// and returns false.
bool shm_endpoint::claim(link_state& state, round_no round) {
  if (state.claim->take(round, *state.closed)) return true;
  report_end(state.instance, blocks_.at(state.instance), state.closed->reason());
  return false;
}

// Reads a message that has arrived. Returns false if the payload cannot be read.
bool shm_endpoint::take(link_id link, round_no round, message_target into, arrival& out) {
  link_state& state = links_[link];
  shm_cell& cell = *state.cells[round % 2];
  const shm_message what = read_header(state, cell);
  out = {into.memory, what.bytes, what.tally, what.null != 0};
  const bool is_exposed = !out.null && out.bytes > 0 && what.place != payload_place::cell;
  if (is_exposed && state.claim != nullptr && !claim(state, round)) return false;
  state.exposed = is_exposed ? round : 0;
  const bool is_by_address = is_exposed && what.place == payload_place::process;
  const process_id process = is_by_address ? segment_->page(state.spec.peer).process.load() : process_id{};
  const bool is_elsewhere = is_by_address && process != process_;
  const bool is_shown = is_exposed && what.place == payload_place::device;
  const std::byte* payload = is_shown        ? nullptr
                             : is_by_address ? reinterpret_cast<const std::byte*>(what.source)
                             : is_exposed    ? segment_->at(what.source)
                                             : cell.eager(what.bytes);
  if (is_shown) out.shown = what.source;
  if (state.spec.in_place && !out.null) {
    out.data = payload;
    return true;
  }
  if (is_exposed) flush();  // wakes peers before a long copy
  if (out.bytes > into.bytes) {
    out.data = nullptr;
  } else if (is_elsewhere) {
    if (!read_peer_memory(process.number, what.source, into.memory, out.bytes)) return give_up(link, cell);
  } else if (!out.null && out.bytes > 0) {
    std::memcpy(into.memory, payload, out.bytes);
  }
  release(link, round);
  return true;
}

// Called if a payload cannot be read. The receive never completes. If the sender has died, find_dead_peer() will report
// the loss. Always returns false.
bool shm_endpoint::give_up(link_id link, const shm_cell& cell) {
  if (culprit_ == k_no_rank) culprit_since_ = std::chrono::steady_clock::now();
  culprit_ = links_[link].spec.peer;
  links_[link].claim->let_go();
  links_[link].exposed = 0;
  add_watch(link, &cell.stamp, k_never, awaited::message);
  return false;
}

void shm_endpoint::release(link_id link, round_no round) {
  link_state& state = links_[link];
  if (state.exposed != 0 && state.claim != nullptr) state.claim->let_go();
  if (std::exchange(state.exposed, 0) == 0 && !state.credits) return;
  publish(state, *state.word, round);
}

bool shm_endpoint::arm(link_id link, round_no round) {
  link_state& state = links_[link];
  if (state.watch_at != k_no_watch) drop_watch(state.watch_at);
  if (state.word->load() >= round) return true;
  add_watch(link, state.word, round, awaited::signal);
  return false;
}

void shm_endpoint::disarm(link_id link) {
  if (links_[link].watch_at != k_no_watch) drop_watch(links_[link].watch_at);
}

// --- data path: polling -----------------------------------------------------------------------------------------

void shm_endpoint::add_watch(link_id link, const std::atomic<std::uint64_t>* word, std::uint64_t goal, awaited what) {
  links_[link].watch_at = static_cast<std::uint32_t>(watches_.size());
  watches_.push_back({word, goal, link, what});  // attach() has reserved memory for one watch per link
}

void shm_endpoint::drop_watch(std::uint32_t index) {
  links_[watches_[index].link].watch_at = k_no_watch;
  if (index + 1 != watches_.size()) {
    watches_[index] = watches_.back();
    links_[watches_[index].link].watch_at = index;
  }
  watches_.pop_back();
}

std::size_t shm_endpoint::poll(std::span<completion> out) {
  if (segment_->bad_news().load() != news_seen_) find_bad_news();
  std::size_t found = 0;
  for (std::uint32_t i = 0; i < watches_.size() && found < out.size();) {
    const watch due = watches_[i];
    if (due.word->load() < due.goal) {
      ++i;
      continue;
    }
    drop_watch(i);
    if (complete(due, out[found])) ++found;
  }
  return found;
}

bool shm_endpoint::complete(const watch& due, completion& out) {
  link_state& state = links_[due.link];
  out.cookie = state.spec.cookie;
  out.round = due.what == awaited::credit ? state.delayed_round : due.goal;
  switch (due.what) {
    case awaited::message:
      return state.spec.announced ? announce(due.link, due.goal, out.what)
                                  : take(due.link, due.goal, state.into, out.what);
    case awaited::credit: return transmit(due.link, state.delayed_round, state.delayed);
    case awaited::consumed:
    case awaited::signal: return true;
  }
  return true;
}

}  // namespace lsched
