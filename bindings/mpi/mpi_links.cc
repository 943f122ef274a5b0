#include "bindings/mpi/mpi_links.h"

#include <algorithm>
#include <string>
#include <utility>

namespace lsched {

using namespace mpi_edge;

// --- what edges of one peer share -------------------------------------------------------------------------

std::uint64_t mpi_stream::put(const control_record& news, std::uint64_t number) {
  if (number >= first_pending_) {
    pending_[number - first_pending_].value = news.value;
    return number;
  }
  pending_.push_back(news);
  return first_pending_ + pending_.size() - 1;
}

std::size_t mpi_stream::next_batch() {
  const std::size_t count = std::min(pending_.size(), k_batch_records);
  const auto end = pending_.begin() + static_cast<std::ptrdiff_t>(count);
  std::copy(pending_.begin(), end, outgoing.begin());
  pending_.erase(pending_.begin(), end);
  first_pending_ += count;
  return count;
}

// --- the edges ---------------------------------------------------------------------------------------------

result<std::vector<link_id>> mpi_links::attach(std::uint32_t id, bool credits, std::span<const edge_spec> edges,
                                               int highest_tag) {
  if (blocks_.contains(id)) return failure{status::state, "instance " + std::to_string(id) + " is attached already"};
  if (auto why = validate(edges)) return *why;
  reap();

  block held;
  for (const edge_spec& edge : edges) held.links.push_back(add(credits, edge));
  const bool has_memory = reserve_memory(held);
  enumerate_control(id, held);
  std::vector<link_id> answer = held.links;
  blocks_.emplace(id, std::move(held));
  const bool is_taggable = has_tags(highest_tag);
  if (has_memory && is_taggable) return answer;
  detach(id);
  if (!is_taggable) return failure{status::no_memory, "MPI has no tags left for more schedules between these ranks"};
  return failure{status::no_memory, "no memory left for message buffers"};
}

std::optional<failure> mpi_links::validate(std::span<const edge_spec> edges) const {
  for (const edge_spec& edge : edges) {
    if (edge.peer < 0 || static_cast<std::size_t>(edge.peer) >= streams_.size())
      return failure{status::argument, "an edge leaves the world", edge.peer};
    if (edge.capacity > k_most_bytes / 4) return failure{status::no_memory, "an edge is larger than memory", edge.peer};
  }
  std::vector<edge_spec> ordered(edges.begin(), edges.end());
  std::ranges::sort(ordered, {}, order_of);
  const auto twin = std::ranges::adjacent_find(ordered, {}, order_of);
  if (twin != ordered.end()) return failure{status::argument, "two edges of one tag and direction", twin->peer};
  return std::nullopt;
}

link_id mpi_links::add(bool credits, const edge_spec& edge) {
  link_id link = static_cast<link_id>(links_.size());
  if (free_links_.empty()) {
    links_.emplace_back();
  } else {
    link = free_links_.back();
    free_links_.pop_back();
  }
  links_[link] = mpi_link{};
  links_[link].spec = edge;
  links_[link].credits = credits;
  links_[link].is_live = true;
  (void)stream_to(edge.peer);
  return link;
}

mpi_stream& mpi_links::stream_to(rank peer) {
  auto& place = streams_[static_cast<std::size_t>(peer)];
  if (place == nullptr) {
    place = std::make_unique<mpi_stream>();
    place->peer = peer;
  }
  return *place;
}

bool mpi_links::reserve_memory(block& held) {
  std::uint64_t bytes = 0;
  for (const link_id link : held.links) {
    const std::uint64_t more = own_bytes(links_[link].spec);
    if (more > k_most_bytes - bytes) return false;
    bytes += more;
  }
  held.bytes.reset(allocate_aligned(bytes));
  std::byte* place = held.bytes.get();
  if (place == nullptr) return false;
  for (const link_id link : held.links) {
    mpi_link& state = links_[link];
    if (!state.spec.signal) {
      state.bounce[0] = place;
      std::byte* second = place + bounce_bytes(state.spec);
      if (state.spec.outgoing) state.bounce[1] = second;
      if (!state.spec.outgoing && needs_landing(state.spec)) state.landing = second;
    }
    place += own_bytes(state.spec);
  }
  return true;
}

// Tags are given out in link(), because only a commit that succeeds does so on both sides; here is only counted whether
// all unlinked instances will have enough. Tags are not used twice: nothing says when the peer is done with one.
bool mpi_links::has_tags(int highest_tag) {
  std::unordered_map<const int*, int> needed;
  for (const auto& [id, held] : blocks_) {
    if (held.is_linked) continue;
    for (const link_id link : held.links)
      if (!links_[link].spec.signal) ++needed[&next_tag_of(links_[link].spec)];
  }
  return std::ranges::all_of(needed, [&](const auto& one) { return *one.first + one.second - 1 <= highest_tag; });
}

std::vector<link_id> mpi_links::sorted(const block& held) const {
  std::vector<link_id> ordered = held.links;
  std::ranges::sort(ordered, {}, [this](link_id link) { return order_of(links_[link].spec); });
  return ordered;
}

// Control edges are known by their place among those of one instance and one direction. No message is needed
// for both sides to agree on that, and a record finds its link as soon as this rank has attached.
void mpi_links::enumerate_control(std::uint32_t id, const block& held) {
  std::unordered_map<rank, std::uint32_t> sent;
  for (const link_id link : sorted(held)) {
    mpi_link& state = links_[link];
    mpi_stream& with = stream_to(state.spec.peer);
    if (sends_control_for(state.spec, state.credits)) state.control_index = sent[state.spec.peer]++;
    if (receives_control_for(state.spec, state.credits)) with.receivers[id].push_back(link);
  }
  for (const auto& [peer, more] : sent) {
    // A record may outlive its link in the table, so what is there now is not counted on.
    std::size_t senders = 2;  // the last record; a cancellation
    for (const mpi_link& state : links_)
      if (state.is_live && state.spec.peer == peer && sends_control_for(state.spec, state.credits)) ++senders;
    stream_to(peer).reserve(senders);
  }
}

std::size_t mpi_links::most_requests() const {
  const auto known = std::ranges::count_if(streams_, [](const auto& with) { return with != nullptr; });
  return 3 * links_.size() + 2 * static_cast<std::size_t>(known);  // two bounces and a chunk; a batch each way
}

bool mpi_links::is_unlinked(std::uint32_t id) const {
  const auto found = blocks_.find(id);
  return found != blocks_.end() && !found->second.is_linked;
}

void mpi_links::link(std::uint32_t id, std::span<const instance_address> all) {
  block& held = blocks_.at(id);
  held.is_linked = true;
  for (const link_id link : sorted(held)) {
    mpi_link& state = links_[link];
    state.instance = static_cast<std::uint32_t>(all[static_cast<std::size_t>(state.spec.peer)].far);
    if (!state.spec.signal) state.tag = next_tag_of(state.spec)++;
  }
}

std::vector<link_id> mpi_links::link_to_each_peer(std::uint32_t id) const {
  const auto peer_of = [this](link_id link) { return links_[link].spec.peer; };
  const std::span<const link_id> its = of(id);
  std::vector<link_id> some(its.begin(), its.end());
  std::ranges::sort(some, {}, peer_of);
  some.erase(std::ranges::unique(some, {}, peer_of).begin(), some.end());
  return some;
}

bool mpi_links::give_up(std::uint32_t id, rank by) {
  const auto found = blocks_.find(id);
  return found != blocks_.end() && std::exchange(found->second.given_up_by, by) == k_no_rank;
}

rank mpi_links::given_up_by(std::uint32_t id) const {
  const auto found = blocks_.find(id);
  return found == blocks_.end() ? k_no_rank : found->second.given_up_by;
}

std::span<const link_id> mpi_links::of(std::uint32_t id) const {
  const auto found = blocks_.find(id);
  return found == blocks_.end() ? std::span<const link_id>() : found->second.links;
}

void mpi_links::detach(std::uint32_t id) {
  const auto found = blocks_.find(id);
  if (found == blocks_.end()) return;
  block& held = found->second;
  for (const link_id link : held.links) {
    links_[link].is_live = false;
    stream_to(links_[link].spec.peer).receivers.erase(id);
  }
  retired_.push_back(std::move(held));
  blocks_.erase(found);
  reap();
}

// Sends that were reported done may still be on their way from a bounce buffer.
void mpi_links::reap() {
  std::erase_if(retired_, [this](const block& held) {
    const auto is_in_flight = [this](link_id link) { return links_[link].in_flight != 0; };
    if (std::ranges::any_of(held.links, is_in_flight)) return false;
    free_links_.insert(free_links_.end(), held.links.begin(), held.links.end());
    return true;
  });
}

void mpi_links::abandon() {
  for (auto& each : streams_) (void)each.release();
  for (auto& [id, held] : blocks_) (void)held.bytes.release();
  for (block& held : retired_) (void)held.bytes.release();
}

}  // namespace lsched
