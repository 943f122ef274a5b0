// This file manages the parts of the segment that instances and worlds use: blocks, connections to peers, and boards.
#include <algorithm>
#include <cstring>
#include <map>

#include "libsched/transport/shm/shm_edge.h"
#include "libsched/transport/shm/shm_endpoint.h"

namespace lsched {

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
  if (memory == nullptr)
    return failure{status::no_memory, "the rank's shared region is full: set a larger LSCHED_REGION"};
  std::memset(memory, 0, bytes);
  return std::unique_ptr<board>(make_board(*new (memory) shm_board_words{}));
}

// The board of the world of all ranks is in the page of its rank and is never freed.
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
      return failure{
          status::argument,
          "a message of the schedule has the peer " + std::to_string(edge.peer) + ", which is outside the world",
          edge.peer};

  const std::uint64_t head_bytes = (shm_block::bytes_for(edges.size(), members.size()) + 63) / 64 * 64;
  std::uint64_t bytes = head_bytes;
  for (const edge_spec& edge : edges) bytes += own_bytes(edge);
  std::byte* const memory = heap_.allocate(bytes);
  if (memory == nullptr)
    return failure{status::no_memory, "the rank's shared region is full: set a larger LSCHED_REGION"};
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
      if (state.staging->memory == nullptr && !edge.grows) out_of_memory = true;
    }
    if (edge.signal ? !edge.outgoing : edge.outgoing) {
      state.word = new (place) std::atomic<std::uint64_t>(0);
      if (has_claim(edge)) state.claim = new (place + 64) shm_claim{};
    } else if (!edge.signal) {
      for (std::uint64_t k = 0; k < 2; ++k) state.cells[k] = new (place + k * cell_bytes(edge.capacity)) shm_cell{};
    }
    state.read_above = read_above(edge, is_target[static_cast<std::size_t>(edge.peer)] != 0);
    rows[i] = {edge.peer,         edge.tag,      edge.outgoing,    edge.signal,
               edge.reads_device, edge.capacity, state.read_above, segment_->offset_of(place)};
    place += own_bytes(edge);
    region.links.push_back(link);
  }
  watches_.reserve(links_.size());
  std::vector<link_id> answer = region.links;
  blocks_.emplace(id, std::move(region));
  if (out_of_memory) {
    detach(id);
    return failure{status::no_memory, "the rank's shared region is full: set a larger LSCHED_REGION"};
  }
  return answer;
}

member_address shm_endpoint::address_of(std::uint32_t id) const {
  return {.near = segment_->offset_of(reinterpret_cast<const std::byte*>(blocks_.at(id).head))};
}

// Returns the staging area of the edge. Edges that send the same bytes share one area.
shm_endpoint::staging_area* shm_endpoint::staging_for(const edge_spec& edge, block& region) {
  const auto is_its = [&](const auto& area) { return area->source == edge.source && area->bytes == edge.capacity; };
  if (edge.source != 0)
    if (const auto found = std::ranges::find_if(region.stagings, is_its); found != region.stagings.end())
      return found->get();
  auto made = std::make_unique<staging_area>();
  if (!edge.grows) *made = {heap_.allocate(edge.capacity), edge.capacity, edge.source};
  return region.stagings.emplace_back(std::move(made)).get();
}

namespace {

/// Returns a key that identifies an edge among the edges between this rank and one peer.
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
  if (ours.head->closed.is_set()) cancel(id, ours.head->closed.reason());  // copies the reason to the other members
  return connect_all(ours);
}

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

/// Returns the block of rank `peer` at `offset`, or nullptr if the offset is invalid.
shm_block* shm_endpoint::block_at(rank peer, std::uint64_t offset, std::size_t members) const {
  if (offset % alignof(shm_block) != 0) return nullptr;
  const bool is_sound = segment_->holds(peer, offset, shm_block::bytes_for(0, members));
  return is_sound ? reinterpret_cast<shm_block*>(segment_->at(offset)) : nullptr;
}

/// Returns the rows of a peer's block, or an empty span if their number is invalid.
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

// Tests whether the memory of the peer's process can be read, and caches the result. If the peer was absent, a later
// call tests again.
bool shm_endpoint::can_read(rank peer) {
  reach& known = reach_[static_cast<std::size_t>(peer)];
  const shm_page& page = segment_->page(peer);
  if (const std::uint64_t probe = page.probe.load(); known == reach::unknown && probe != 0)
    known = options_.reads_processes && has_visible_process(peer) &&
                    memory_probe::answers(page.process.load().number, probe)
                ? reach::all
                : reach::none;
  return known == reach::all;
}

std::uint64_t shm_endpoint::read_above(const edge_spec& edge, bool is_mutual) {
  const bool is_copied = !edge.outgoing && !edge.signal && !edge.in_place && edge.capacity > k_one_way_bytes;
  if (!is_copied || !can_read(edge.peer)) return k_never;
  return is_mutual ? k_eager_bytes : k_one_way_bytes;
}

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
    state.spec.reads_device = row.reads_device != 0 && has_claim(edge);
    for (std::uint64_t k = 0; k < 2; ++k)
      state.cells[k] = reinterpret_cast<shm_cell*>(place + k * cell_bytes(edge.capacity));
  } else if (edge.outgoing || !edge.signal) {
    state.word = reinterpret_cast<std::atomic<std::uint64_t>*>(place);
    if (has_claim(edge)) state.claim = reinterpret_cast<shm_claim*>(place + 64);
    state.closed = &theirs.closed;
  }
  return status::ok;
}

// In the block of each peer, this rank has a byte `left`. When this rank has set the byte, the peer may reuse the block
// for another instance. So this rank sets the byte last.
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
  // Copies the reason to the other members, because the rank that cancelled may have died before it could do so.
  const bool is_closed = held.head->closed.is_set();
  for (std::size_t m = 0; m < held.of_ranks.size(); ++m) {
    if (m == self) continue;
    if (is_closed) held.of_ranks[m]->closed.record(held.head->closed.reason());
    held.of_ranks[m]->left(self).store(1, std::memory_order_release);
  }
  if (held.of_ranks.empty()) held.members.clear();  // no other rank uses the block
  retired_.push_back({reinterpret_cast<std::byte*>(held.head), &held.head->left(0), std::move(held.members),
                      std::move(held.stagings), place});
  reap();
}

// Frees retired memory that all members have left. Until then, a peer may write to a retired block and read this rank's
// record. If many pieces remain, because a peer is far behind, reap() searches again only when their number has
// doubled.
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

}  // namespace lsched
