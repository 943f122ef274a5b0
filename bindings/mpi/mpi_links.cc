#include "bindings/mpi/mpi_links.h"

#include <algorithm>
#include <string>
#include <utility>

#include "libsched/transport/edge_list.h"

namespace lsched {

using namespace mpi_edge;

// --- streams -----------------------------------------------------------------------------------------------

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

result<std::vector<link_id>> mpi_links::attach(std::uint32_t id, std::span<const rank> members, bool credits,
                                               std::span<const edge_spec> edges) {
  if (blocks_.contains(id)) return failure{status::state, "instance " + std::to_string(id) + " is attached already"};
  if (auto why = validate_edges(edges, static_cast<rank>(streams_.size()))) return *why;
  reap();

  std::unordered_map<rank, int> incoming;
  int most = 0;
  for (const edge_spec& edge : edges)
    if (!edge.signal && !edge.outgoing) most = std::max(most, ++incoming[edge.peer]);
  const auto tags = tags_.allocate(most);
  block held{.members = {members.begin(), members.end()}, .tags = tags.value_or(mpi_tags::range{})};
  for (const edge_spec& edge : edges) held.links.push_back(add(id, credits, edge));
  const bool has_memory = reserve_memory(held);
  enumerate_control(id, held);
  assign_tags(held, false, [&](rank) { return held.tags.first; });
  std::vector<link_id> answer = held.links;
  blocks_.emplace(id, std::move(held));
  if (has_memory && tags) return answer;
  detach(id, true);
  if (!tags)
    return failure{
        status::no_memory,
        "MPI has no free tags for another schedule between these ranks: destroy schedules that are not needed"};
  return failure{status::no_memory, "out of memory for the message buffers of the schedule: destroy other schedules"};
}

link_id mpi_links::add(std::uint32_t id, bool credits, const edge_spec& edge) {
  link_id link = static_cast<link_id>(links_.size());
  if (free_links_.empty()) {
    links_.emplace_back();
  } else {
    link = free_links_.back();
    free_links_.pop_back();
  }
  links_[link] = mpi_link{};
  links_[link].spec = edge;
  links_[link].own_instance = id;
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
    if (more > k_most_edge_bytes - bytes) return false;
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

// Both ranks of a pair enumerate the payload edges of one direction in the same order. So both compute the same tags
// from the receiver's first tag.
void mpi_links::assign_tags(const block& held, bool outgoing, const std::function<int(rank peer)>& first_tag_of) {
  std::unordered_map<rank, int> counted;
  for (const link_id link : sorted(held)) {
    mpi_link& state = links_[link];
    if (state.spec.signal || state.spec.outgoing != outgoing) continue;
    state.tag = first_tag_of(state.spec.peer) + counted[state.spec.peer]++;
  }
}

member_address mpi_links::address_of(std::uint32_t id) const {
  return {.far = std::uint64_t{id} << 32 | static_cast<std::uint32_t>(blocks_.at(id).tags.first)};
}

std::vector<link_id> mpi_links::sorted(const block& held) const {
  std::vector<link_id> ordered = held.links;
  std::ranges::sort(ordered, {}, [this](link_id link) { return order_of(links_[link].spec); });
  return ordered;
}

// Assigns indices to the control edges of an instance, separately for each peer and direction. Both ranks compute the
// same indices without a message, so records can be handled as soon as this rank has attached the instance.
void mpi_links::enumerate_control(std::uint32_t id, const block& held) {
  std::unordered_map<rank, std::uint32_t> sent;
  for (const link_id link : sorted(held)) {
    mpi_link& state = links_[link];
    mpi_stream& with = stream_to(state.spec.peer);
    if (sends_control_for(state.spec, state.credits)) state.control_index = sent[state.spec.peer]++;
    if (receives_control_for(state.spec, state.credits)) with.receivers[id].push_back(link);
  }
  for (const auto& [peer, more] : sent) {
    // The records in the table may belong to detached links, so the capacity is reserved in addition to these records.
    std::size_t senders = 3;  // the last record, a cancellation, and the answer to a cancellation
    for (const mpi_link& state : links_)
      if (state.is_live && state.spec.peer == peer && sends_control_for(state.spec, state.credits)) ++senders;
    stream_to(peer).reserve(senders);
  }
}

std::size_t mpi_links::most_requests() const {
  const auto known = std::ranges::count_if(streams_, [](const auto& with) { return with != nullptr; });
  // Each link has at most three requests: two for bounce buffers and one for a chunk. Each stream has at most two, one
  // for a batch in each direction.
  return 3 * links_.size() + 2 * static_cast<std::size_t>(known);
}

bool mpi_links::is_unlinked(std::uint32_t id) const {
  const auto found = blocks_.find(id);
  return found != blocks_.end() && !found->second.is_linked;
}

void mpi_links::link(std::uint32_t id, std::span<const member_address> all) {
  block& held = blocks_.at(id);
  held.is_linked = true;
  const auto address_of_peer = [&](rank peer) {
    return all[static_cast<std::size_t>(std::ranges::find(held.members, peer) - held.members.begin())].far;
  };
  for (const link_id link : held.links)
    links_[link].instance = static_cast<std::uint32_t>(address_of_peer(links_[link].spec.peer) >> 32);
  assign_tags(held, true, [&](rank peer) { return static_cast<int>(address_of_peer(peer) & 0xffffffff); });
}

std::vector<link_id> mpi_links::link_to_each_peer(std::uint32_t id) const {
  return one_link_per_peer(of(id), [this](link_id link) { return links_[link].spec.peer; });
}

bool mpi_links::end(std::uint32_t id, const end_reason& reason) {
  const auto found = blocks_.find(id);
  if (found == blocks_.end() || found->second.ended) return false;
  found->second.ended = reason;
  return true;
}

std::span<const link_id> mpi_links::of(std::uint32_t id) const {
  const auto found = blocks_.find(id);
  return found == blocks_.end() ? std::span<const link_id>() : found->second.links;
}

// If the end is not clean, the tags are never reused, because it is unknown when a peer stops using them.
void mpi_links::detach(std::uint32_t id, bool is_clean) {
  const auto found = blocks_.find(id);
  if (found == blocks_.end()) return;
  block& held = found->second;
  for (const link_id link : held.links) {
    links_[link].is_live = false;
    stream_to(links_[link].spec.peer).receivers.erase(id);
  }
  if (is_clean) tags_.deallocate(held.tags);
  retired_.push_back(std::move(held));
  blocks_.erase(found);
  reap();
}

// Frees detached blocks whose requests have completed. (A send from a bounce buffer may still be in flight after it was
// reported as complete.)
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
