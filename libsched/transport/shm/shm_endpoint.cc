#include "libsched/transport/shm/shm_endpoint.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <map>

#include "libsched/transport/shm/shm_edge.h"

namespace lsched {
namespace {

constexpr std::chrono::milliseconds k_longest_exit{50};  // from the loss of its memory until a process is seen to end

}  // namespace

result<std::unique_ptr<shm_endpoint>> shm_endpoint::open(std::shared_ptr<shm_segment> segment, rank self,
                                                         const shm_options& options) {
  if (self < 0 || self >= segment->ranks())
    return failure{status::argument,
                   "rank " + std::to_string(self) + " is outside a world of " + std::to_string(segment->ranks()), self};
  std::int32_t nobody = 0;  // whoever enters its process first has the rank; a loser changes nothing
  shm_page& page = segment->page(self);
  if (!page.process.compare_exchange_strong(nobody, static_cast<std::int32_t>(getpid())))
    return failure{status::state, "rank " + std::to_string(self) + " has joined this world before: a rank joins once",
                   self};
  std::unique_ptr<shm_endpoint> made(new shm_endpoint(std::move(segment), self, options));
  page.probe.store(made->probe_.address());
  made->record_->rank_in_world.store(self);
  made->record_->process_start.store(start_of_process(made->process_));
  made->record_->process.store(made->process_);
  made->segment_->enter(self, shm_page::open);
  return made;
}

shm_endpoint::shm_endpoint(std::shared_ptr<shm_segment> segment, rank self, const shm_options& options)
    : segment_(std::move(segment)),
      heap_(segment_, self),
      self_(self),
      process_(static_cast<std::int32_t>(getpid())),
      page_(&segment_->page(self)),
      record_(&segment_->record(self)),
      options_(options),
      reach_(static_cast<std::size_t>(segment_->ranks())),
      ringer_(static_cast<std::size_t>(segment_->ranks())),
      expected_of_(static_cast<std::size_t>(segment_->ranks())) {}

shm_endpoint::~shm_endpoint() { close(); }

// A child that the process has forked is not in the world.
void shm_endpoint::close() {
  if (getpid() != process_) return;
  if (record_->closed_ns.load() == 0) record_->closed_ns.store(monotonic_ns());
  page_->state_of_rank.store(shm_page::closed);
}

// --- commit -----------------------------------------------------------------------------------------------------

std::unique_ptr<shm_board> shm_endpoint::make_board(shm_board_words& words) {
  auto made = std::make_unique<shm_board>(*segment_, ringer_, self_, words, [this](shm_board& over) {
    std::erase(boards_, &over);
    retire(over);
  });
  boards_.push_back(made.get());
  return made;
}

std::unique_ptr<board> shm_endpoint::open_home_board() {
  auto made = make_board(page_->home_board);
  made->join_home();
  return made;
}

result<std::unique_ptr<board>> shm_endpoint::open_board(std::size_t most) {
  reap();
  const std::uint64_t bytes = shm_board_words::bytes_for(most);
  std::byte* const memory = heap_.allocate(bytes);
  if (memory == nullptr) return failure{status::no_memory, "its shared region is full"};
  std::memset(memory, 0, bytes);
  return std::unique_ptr<board>(make_board(*new (memory) shm_board_words{}));
}

// The home board lies in the page of its rank, for ever.
void shm_endpoint::retire(const shm_board& over) {
  if (&over.words() == &page_->home_board) return;
  const std::span<const rank> members = over.members();
  const auto of_ranks = over.of_ranks();
  const auto self = static_cast<std::size_t>(std::ranges::find(members, self_) - members.begin());
  for (std::size_t m = 0; m < of_ranks.size(); ++m)
    if (m != self) of_ranks[m]->left(self).store(1, std::memory_order_release);
  retired_.push_back({.memory = reinterpret_cast<std::byte*>(&over.words()),
                      .left = &over.words().left(0),
                      .members = {members.begin(), members.end()}});
  reap();
}

result<std::vector<link_id>> shm_endpoint::attach(std::uint32_t id, std::span<const rank> members, bool credits,
                                                  std::span<const edge_spec> edges) {
  reap();
  for (const edge_spec& edge : edges)
    if (edge.peer < 0 || edge.peer >= segment_->ranks())
      return failure{status::argument, "an edge leaves the world", edge.peer};

  const std::uint64_t head_bytes = (shm_block::bytes_for(edges.size(), members.size()) + 63) / 64 * 64;
  std::uint64_t bytes = head_bytes;
  for (const edge_spec& edge : edges) bytes += own_bytes(edge);
  std::byte* const memory = heap_.allocate(bytes);
  if (memory == nullptr) return failure{status::no_memory, "its shared region is full"};
  std::memset(static_cast<void*>(memory), 0, head_bytes);
  block region{.members = {members.begin(), members.end()}};
  region.head = new (memory) shm_block{.place_on_record = shm_record::k_places, .rows = edges.size()};
  const std::span<edge_row> rows = region.head->edges(edges.size(), members.size());

  const std::vector<std::uint8_t> is_target = foreign_targets(edges, segment_->ranks());
  bool out_of_memory = false;
  std::byte* place = memory + head_bytes;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const edge_spec& edge = edges[i];
    link_id link = static_cast<link_id>(links_.size());
    if (free_links_.empty()) {
      links_.emplace_back();
    } else {
      link = free_links_.back();
      free_links_.pop_back();
    }
    link_state& state = links_[link] = link_state{};
    state.spec = edge;
    state.instance = id;
    state.credits = credits;
    if (needs_staging(edge)) {
      state.staging = staging_for(edge, region);
      if (state.staging->memory == nullptr) out_of_memory = true;
    }
    if (edge.signal ? !edge.outgoing : edge.outgoing) {
      state.word = new (place) std::atomic<std::uint64_t>(0);
      if (has_claim(edge)) state.claim = new (place + 64) shm_claim{};
    } else if (!edge.signal) {
      for (std::uint64_t k = 0; k < 2; ++k) state.cells[k] = new (place + k * cell_bytes(edge.capacity)) shm_cell{};
    }
    state.read_above = read_above(edge, is_target[static_cast<std::size_t>(edge.peer)] != 0);
    rows[i] = {
        edge.peer, edge.tag, edge.outgoing, edge.signal, edge.capacity, state.read_above, segment_->offset_of(place)};
    place += own_bytes(edge);
    region.links.push_back(link);
  }
  watches_.reserve(links_.size());
  std::vector<link_id> answer = region.links;
  blocks_.emplace(id, std::move(region));
  if (out_of_memory) {
    detach(id);
    return failure{status::no_memory, "its shared region is full"};
  }
  return answer;
}

member_address shm_endpoint::address_of(std::uint32_t id) const {
  return {.near = segment_->offset_of(reinterpret_cast<const std::byte*>(blocks_.at(id).head))};
}

// The edge's own, or that of an edge that sends the same.
shm_endpoint::staging_area* shm_endpoint::staging_for(const edge_spec& edge, block& region) {
  const auto is_its = [&](const auto& area) { return area->source == edge.source && area->bytes == edge.capacity; };
  if (edge.source != 0)
    if (const auto found = std::ranges::find_if(region.stagings, is_its); found != region.stagings.end())
      return found->get();
  region.stagings.push_back(
      std::make_unique<staging_area>(staging_area{heap_.allocate(edge.capacity), edge.capacity, edge.source}));
  return region.stagings.back().get();
}

namespace {

/// Names an edge among those of a rank pair; both ends write it as seen from the end that sends.
constexpr std::uint64_t name_of_edge(std::uint32_t tag, bool is_sent_by_us, bool is_signal) {
  return std::uint64_t{tag} << 2 | (is_sent_by_us ? 2u : 0u) | (is_signal ? 1u : 0u);
}

}  // namespace

status shm_endpoint::link(std::uint32_t id, std::span<const member_address> all) {
  const auto found = blocks_.find(id);
  if (found == blocks_.end() || all.size() != found->second.members.size()) return status::internal;
  block& ours = found->second;
  ours.of_ranks.clear();
  for (std::size_t m = 0; m < all.size(); ++m) {
    ours.of_ranks.push_back(block_at(ours.members[m], all[m].near, all.size()));
    if (ours.of_ranks.back() != nullptr) continue;
    ours.of_ranks.clear();
    return status::unmatched;
  }
  if (const rank by = ours.head->given_up.by(); by != k_no_rank) cancel(id, by);  // the others may not know
  return connect_all(ours);
}

// Looks once through every peer's rows.
status shm_endpoint::connect_all(const block& ours) {
  std::map<std::pair<rank, std::uint64_t>, link_id> open;
  for (const link_id link : ours.links) {
    const edge_spec& edge = links_[link].spec;
    links_[link].left = &ours.head->left(index_of(edge.peer, ours));
    open.emplace(std::pair(edge.peer, name_of_edge(edge.tag, edge.outgoing, edge.signal)), link);
  }
  for (auto next = open.begin(); next != open.end();) {
    const rank peer = next->first.first;
    shm_block& theirs = *ours.of_ranks[index_of(peer, ours)];
    for (const edge_row& row : edges_of(peer, theirs, ours.members.size())) {
      if (row.peer != self_) continue;
      const auto end = open.find({peer, name_of_edge(row.tag, row.outgoing == 0, row.signal != 0)});
      if (end == open.end()) continue;
      if (const status answer = connect(links_[end->second], row, theirs); answer != status::ok) return answer;
      open.erase(end);
    }
    next = open.lower_bound({peer, 0});
    if (next != open.end() && next->first.first == peer) return status::unmatched;
  }
  return status::ok;
}

/// A rank's end of an instance; nullptr if what it shows is none.
shm_block* shm_endpoint::block_at(rank peer, std::uint64_t offset, std::size_t members) const {
  if (offset % alignof(shm_block) != 0) return nullptr;
  const bool is_sound = segment_->holds(peer, offset, shm_block::bytes_for(0, members));
  return is_sound ? reinterpret_cast<shm_block*>(segment_->at(offset)) : nullptr;
}

/// None if what the rank shows cannot be.
std::span<const edge_row> shm_endpoint::edges_of(rank peer, shm_block& theirs, std::size_t members) const {
  const std::uint64_t rows = theirs.rows;
  const std::uint64_t offset = segment_->offset_of(reinterpret_cast<const std::byte*>(&theirs));
  const bool is_sound = rows <= segment_->stride() / sizeof(edge_row) &&
                        segment_->holds(peer, offset, shm_block::bytes_for(rows, members));
  return theirs.edges(is_sound ? rows : 0, members);
}

std::size_t shm_endpoint::index_of(rank who, const block& held) {
  return static_cast<std::size_t>(std::ranges::find(held.members, who) - held.members.begin());
}

// A peer that has not joined yet is asked again.
bool shm_endpoint::can_read(rank peer) {
  reach& known = reach_[static_cast<std::size_t>(peer)];
  const shm_page& page = segment_->page(peer);
  if (const std::uint64_t probe = page.probe.load(); known == reach::unknown && probe != 0)
    known = options_.reads_processes && memory_probe::answers(page.process.load(), probe) ? reach::all : reach::none;
  return known == reach::all;
}

std::uint64_t shm_endpoint::read_above(const edge_spec& edge, bool is_mutual) {
  const bool is_copied = !edge.outgoing && !edge.signal && !edge.in_place && edge.capacity > k_one_way_bytes;
  if (!is_copied || !can_read(edge.peer)) return k_never;
  return is_mutual ? k_eager_bytes : k_one_way_bytes;
}

// Points this end of an edge at the peer's.
status shm_endpoint::connect(link_state& state, const edge_row& row, const shm_block& theirs) {
  const edge_spec& edge = state.spec;
  edge_spec opposite = edge;
  opposite.outgoing = !edge.outgoing;
  if (row.capacity != edge.capacity || !segment_->holds(edge.peer, row.offset, own_bytes(opposite)))
    return status::unmatched;
  std::byte* place = segment_->at(row.offset);
  state.peer_bell = &segment_->page(edge.peer).bell;
  if (edge.outgoing && !edge.signal) {
    state.read_above = row.read_above;
    for (std::uint64_t k = 0; k < 2; ++k)
      state.cells[k] = reinterpret_cast<shm_cell*>(place + k * cell_bytes(edge.capacity));
  } else if (edge.outgoing || !edge.signal) {
    state.word = reinterpret_cast<std::atomic<std::uint64_t>*>(place);
    if (has_claim(edge)) state.claim = reinterpret_cast<shm_claim*>(place + 64);
    state.given_up = &theirs.given_up;
  }
  return status::ok;
}

// Once its `left` byte is set, a peer may give its block to another instance: nothing is written there any more.
void shm_endpoint::detach(std::uint32_t id) {
  const auto found = blocks_.find(id);
  if (found == blocks_.end()) return;
  block held = std::move(found->second);
  blocks_.erase(found);
  for (const link_id link : held.links) {
    disarm(link);
    free_links_.push_back(link);
  }
  const std::uint32_t place = held.head->place_on_record;
  if (place != shm_record::k_places) record_->set_label(place, {});
  const std::size_t self = index_of(self_, held);
  const rank given_up_by = held.head->given_up.by();  // whoever gave it up may not have told all yet
  for (std::size_t m = 0; m < held.of_ranks.size(); ++m) {
    if (m == self) continue;
    if (given_up_by != k_no_rank) held.of_ranks[m]->given_up.record(given_up_by);
    held.of_ranks[m]->left(self).store(1, std::memory_order_release);
  }
  if (held.of_ranks.empty()) held.members.clear();  // nobody else knows it
  retired_.push_back({reinterpret_cast<std::byte*>(held.head), &held.head->left(0), std::move(held.members),
                      std::move(held.stagings), place});
  reap();
}

// A peer may write to a retired block until it has left the instance, too, and may ask for the rounds on record. Where
// this rank is far ahead of a peer and much is left, it looks again when there is twice as much.
void shm_endpoint::reap() {
  if (retired_.size() < reap_at_) return;
  std::erase_if(retired_, [this](const retired_piece& over) {
    for (std::size_t m = 0; m < over.members.size(); ++m) {
      const bool has_left = over.members[m] == self_ || over.left[m].load(std::memory_order_acquire) != 0;
      const bool is_there = segment_->page(over.members[m]).state_of_rank.load() == shm_page::open;
      if (!has_left && is_there && !segment_->is_lost(over.members[m])) return false;
    }
    free(over);
    return true;
  });
  constexpr std::size_t k_few = 64;
  reap_at_ = retired_.size() < k_few ? 0 : 2 * retired_.size();
}

void shm_endpoint::free(const retired_piece& over) {
  if (over.place_on_record != shm_record::k_places) {
    record_->number[over.place_on_record].store(0);
    free_places_.push_back(over.place_on_record);
  }
  heap_.deallocate(over.memory);
  for (const auto& area : over.stagings)
    if (area->memory != nullptr) heap_.deallocate(area->memory);
}

// --- giving up --------------------------------------------------------------------------------------------------

// Several ranks may cancel at once: the block of the first rank decides who is named, and all blocks follow it.
void shm_endpoint::cancel(std::uint32_t id, rank by) {
  const block& ours = blocks_.at(id);
  const rank first = (ours.of_ranks.empty() ? ours.head : ours.of_ranks.front())->given_up.record(by);
  for (shm_block* const theirs : ours.of_ranks) theirs->given_up.record(first);
  tell_all();
}

// Wakes every rank, whatever its threads sleep for.
void shm_endpoint::tell_all() {
  segment_->bad_news().fetch_add(1);
  for (rank peer = 0; peer < segment_->ranks(); ++peer) {
    ring(segment_->page(peer).bell, doorbell::waiter, INT_MAX);
    ring(segment_->page(peer).bell, doorbell::auxiliary);
  }
}

void shm_endpoint::find_bad_news() {
  news_seen_ = segment_->bad_news().load();
  for (auto& [id, region] : blocks_) {
    const rank by = region.head->given_up.by();
    if (by != k_no_rank && !std::exchange(region.is_given_up, true)) report_cancelled({id, by});
  }
  for (rank lost; (lost = segment_->lost_after(losses_seen_)) != k_no_rank; ++losses_seen_) report_lost(lost);
}

void shm_endpoint::abandon(std::uint32_t id) {
  for (const link_id link : blocks_.at(id).links) {
    link_state& state = links_[link];
    disarm(link);
    if (state.spec.outgoing || std::exchange(state.exposed, 0) == 0 || state.claim == nullptr) continue;
    state.claim->let_go();  // not consumed: the sender has to hear why
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

// Makes visible what was written before. The peer sees it if it polls; flush() wakes it if it does not.
void shm_endpoint::publish(link_state& state, std::atomic<std::uint64_t>& word, round_no round) {
  word.store(round, std::memory_order_release);
  ringer_.owe(static_cast<std::size_t>(state.spec.peer), *state.peer_bell);
}

// True if the source may change at once.
bool shm_endpoint::transmit(link_id link, round_no round, const message& what) {
  link_state& state = links_[link];
  shm_cell& cell = *state.cells[round % 2];
  const bool exposed = !what.null && what.bytes > std::min(k_eager_bytes, state.read_above);
  const bool is_read = exposed && state.read_above != k_never && !heap_.owns(what.data, what.bytes);
  if (!exposed && !what.null && what.bytes > 0) std::memcpy(cell.eager(what.bytes), what.data, what.bytes);
  // The line that the peer polls comes last, and at once: it goes back and forth with every look in between.
  cell.what.bytes = what.bytes;
  cell.what.tally = what.tally;
  cell.what.null = what.null ? 1 : 0;
  cell.what.place = payload_place::cell;
  state.exposed = is_read || (exposed && heap_.owns(what.data, what.bytes)) ? round : 0;
  if (is_read) {
    cell.what.place = payload_place::process;
    cell.what.source = reinterpret_cast<std::uintptr_t>(what.data);
  } else if (exposed) {
    cell.what.place = payload_place::segment;
    cell.what.source = segment_->offset_of(find_or_stage(state, round, what));
  }
  publish(state, cell.stamp, round);
  if (exposed) add_watch(link, state.word, round, awaited::consumed);
  return !exposed;
}

// Where peers that map our region see the message: in place, or in a copy, which another edge may have made. The copy's
// previous readers are done: an exposed send completes only when it was consumed.
const std::byte* shm_endpoint::find_or_stage(link_state& state, round_no round, const message& what) {
  if (heap_.owns(what.data, what.bytes)) return what.data;
  staging_area& copy = *state.staging;
  if (copy.round != round) {
    flush();  // a long copy: nobody sleeps meanwhile on what is published
    std::memcpy(copy.memory, what.data, what.bytes);
    copy.round = round;
  }
  return copy.memory;
}

void shm_endpoint::signal(link_id link, round_no round) {
  link_state& state = links_[link];
  if (state.signalled >= round) return;
  state.signalled = round;
  publish(state, *state.word, round);
}

// --- data path: receiving ---------------------------------------------------------------------------------------

bool shm_endpoint::receive(link_id link, round_no round, std::byte* into, arrival& out) {
  link_state& state = links_[link];
  const shm_cell& cell = *state.cells[round % 2];
  if (cell.stamp.load() >= round) return take(link, round, into, out);
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

// Whether what a peer has written can be followed.
bool shm_endpoint::is_sound(const link_state& state, const shm_message& what) const {
  if (what.null != 0) return true;
  if (what.bytes > state.spec.capacity) return false;
  switch (what.place) {
    case payload_place::cell: return what.bytes <= k_eager_bytes;
    case payload_place::segment: return segment_->holds(state.spec.peer, what.source, what.bytes);
    case payload_place::process: return state.read_above != k_never && state.claim != nullptr;
  }
  return false;
}

// The message is there. False if it cannot be read, or not any more. The peer's words are read once: it could change
// them between a check and a use.
bool shm_endpoint::take(link_id link, round_no round, std::byte* into, arrival& out) {
  link_state& state = links_[link];
  shm_cell& cell = *state.cells[round % 2];
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
  out = {into, what.bytes, what.tally, what.null != 0};
  const bool is_exposed = !out.null && out.bytes > 0 && what.place != payload_place::cell;
  if (is_exposed && state.claim != nullptr && !state.claim->take(round, *state.given_up)) return false;
  state.exposed = is_exposed ? round : 0;
  const bool is_by_address = is_exposed && what.place == payload_place::process;
  const std::int32_t process = is_by_address ? segment_->page(state.spec.peer).process.load() : 0;
  const bool is_elsewhere = is_by_address && process != page_->process.load();
  const std::byte* payload = is_by_address ? reinterpret_cast<const std::byte*>(what.source)
                             : is_exposed  ? segment_->at(what.source)
                                           : cell.eager(what.bytes);
  if (state.spec.in_place && !out.null) {
    out.data = payload;
    return true;
  }
  if (is_exposed) flush();  // a long copy, as above
  if (is_elsewhere) {
    if (!read_peer_memory(process, what.source, into, out.bytes)) return give_up(link, cell);
  } else if (!out.null && out.bytes > 0) {
    std::memcpy(into, payload, out.bytes);
  }
  release(link, round);
  return true;
}

// The receive stays posted for ever: if the sender has ended, whoever looks for dead peers finds it. Always false.
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
  watches_.push_back({word, goal, link, what});  // reserved at attach: one watch per link
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
    case awaited::message: return take(due.link, due.goal, state.into, out.what);
    case awaited::credit: return transmit(due.link, state.delayed_round, state.delayed);
    case awaited::consumed:
    case awaited::signal: return true;
  }
  return true;
}

// --- peers that are lost ----------------------------------------------------------------------------------------

bool shm_endpoint::has_ended(rank peer, bool is_awaited) const {
  const shm_page& page = segment_->page(peer);
  const std::int32_t process = page.process.load();
  if (process == 0 || process == getpid()) return false;
  if (page.life.has_ended()) return true;
  if (page.life.is_held()) return is_awaited && is_killed(process);
  return is_gone(process) || (is_awaited && state_of_process(process) == rank_state::ending);
}

/// The next rank, in a ring, that is there and no thread of this process.
rank shm_endpoint::find_successor() const {
  for (rank i = 1; i < segment_->ranks(); ++i) {
    const rank peer = (self_ + i) % segment_->ranks();
    const shm_page& page = segment_->page(peer);
    const bool is_there = page.state_of_rank.load() != shm_page::closed && page.process.load() != getpid();
    if (is_there && !segment_->is_lost(peer)) return peer;
  }
  return self_;
}

// If any rank survives, one does whose successor has not. A rank that ends without closing is lost.
void shm_endpoint::watch_peers() {
  is_watching_.store(true);
  {
    const life_word::holder alive(page_->life);
    while (!stops_watching_.load()) {
      const rank peer = find_successor();
      const shm_page& page = segment_->page(peer);
      watched_.store(peer);
      const std::uint32_t seen = page.life.value();  // before the state: a peer closes, and then changes its word
      if (peer != self_ && page.state_of_rank.load() == shm_page::closed) continue;
      if (page.life.has_ended()) {
        segment_->record_lost(peer);
        tell_all();
      } else if (!stops_watching_.load()) {
        page.life.await_change(seen);
      }
    }
  }
  is_watching_.store(false);
}

void shm_endpoint::stop_watching() {
  if (getpid() != process_) return;
  stops_watching_.store(true);
  for (; is_watching_.load(); usleep(50))
    if (const rank peer = watched_.load(); peer != k_no_rank) segment_->page(peer).life.wake();
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
  const std::int32_t process = page.process.load();
  const bool has_closed = page.state_of_rank.load() == shm_page::closed;
  if (process == 0 || process == getpid() || has_closed) return rank_state::unknown;
  return page.life.has_ended() ? rank_state::ending : state_of_process(process);
}

// What is on record stays true: those who have noticed that loss may have ended or closed since, and are not to blame.
rank shm_endpoint::find_dead_peer() {
  if (const rank lost = find_lost_peer(); lost != k_no_rank && segment_->record_lost(lost)) tell_all();
  if (const rank first = segment_->lost_after(0); first != k_no_rank) return first;
  if (culprit_ != k_no_rank && std::chrono::steady_clock::now() - culprit_since_ > k_longest_exit)
    health_ = status::transport;  // all are alive: it is memory that the system does not let us read
  return k_no_rank;
}

// The dead before the closed: whoever has noticed a death ends its schedules and closes, and is not to blame.
rank shm_endpoint::find_lost_peer() {
  find_awaited_peers();
  for (rank peer = 0; peer < segment_->ranks(); ++peer) {
    const bool is_awaited = expected_of_[static_cast<std::size_t>(peer)] == expected::something;
    // Asked first: the peer may close, and then end.
    if (!segment_->is_lost(peer) && has_ended(peer, is_awaited) &&
        segment_->page(peer).state_of_rank.load() != shm_page::closed)
      return peer;
  }
  for (rank peer = 0; peer < segment_->ranks(); ++peer)
    if (expected_of_[static_cast<std::size_t>(peer)] == expected::in_vain && !segment_->is_lost(peer)) return peer;
  return k_no_rank;
}

// Whether a peer has closed, or left the instance, is asked before its word is read: what came before is not lost.
void shm_endpoint::find_awaited_peers() {
  std::ranges::fill(expected_of_, expected::nothing);
  for (const watch& waiting : watches_) {
    const link_state& state = links_[waiting.link];
    const rank peer = state.spec.peer;
    const bool has_closed = segment_->page(peer).state_of_rank.load() == shm_page::closed;
    const bool has_left = state.left != nullptr && state.left->load(std::memory_order_acquire) != 0;
    if (waiting.word->load() >= waiting.goal) continue;
    expected_of_[static_cast<std::size_t>(peer)] = has_closed ? expected::in_vain : expected::something;
    const bool is_given_up = blocks_.at(state.instance).head->given_up.by() != k_no_rank;  // before it left
    if (has_left && !has_closed && !is_given_up) report_cancelled({state.instance, peer, true});
  }
  for (const shm_board* one : boards_)
    for (const rank peer : one->awaited())
      if (expected& known = expected_of_[static_cast<std::size_t>(peer)]; known == expected::nothing)
        known = expected::something;
}

}  // namespace lsched
