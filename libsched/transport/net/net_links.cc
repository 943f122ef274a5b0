#include "libsched/transport/net/net_links.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "libsched/transport/edge_list.h"

namespace lsched {
namespace {

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

std::uint64_t cell_bytes(const edge_spec& edge) { return aligned(std::min(edge.capacity, k_most_direct_bytes)); }

std::uint64_t landing_bytes(const edge_spec& edge) {
  return edge.in_place && edge.capacity > k_most_direct_bytes ? aligned(edge.capacity) : 0;
}

/// Returns the size in bytes of the buffers for one end of an edge. A sender needs no buffer: the kernel, or the buffer
/// of the control socket, keeps a copy of small payloads.
std::uint64_t own_bytes(const net_link& of) {
  return of.spec.signal || of.spec.outgoing ? 0 : of.cell_count() * cell_bytes(of.spec) + landing_bytes(of.spec);
}

/// The order in which both ranks of a pair number their common edges of one direction.
auto order_of(const edge_spec& edge) { return std::tuple(edge.peer, edge.outgoing, !edge.signal, edge.tag); }

}  // namespace

result<std::vector<link_id>> net_links::attach(std::uint32_t id, std::span<const rank> members, bool credits,
                                               std::span<const edge_spec> edges) {
  if (blocks_.contains(id)) return failure{status::state, "instance " + std::to_string(id) + " is attached already"};
  if (auto why = validate_edges(edges, ranks_)) return *why;
  block held{.members = {members.begin(), members.end()}};
  for (const edge_spec& edge : edges) held.links.push_back(add(id, credits, edge));
  if (!reserve_memory(held)) {
    free_links_of(held);
    return failure{status::no_memory, "out of memory for the message buffers of the schedule: destroy other schedules"};
  }
  enumerate(held);
  std::vector<link_id> answer = held.links;
  blocks_.emplace(id, std::move(held));
  return answer;
}

link_id net_links::add(std::uint32_t id, bool credits, const edge_spec& edge) {
  link_id link = static_cast<link_id>(links_.size());
  if (free_links_.empty()) {
    links_.emplace_back();
  } else {
    link = free_links_.back();
    free_links_.pop_back();
  }
  links_[link] = net_link{};
  links_[link].spec = edge;
  links_[link].own_instance = id;
  links_[link].credits = credits;
  links_[link].is_live = true;
  return link;
}

bool net_links::reserve_memory(block& held) {
  std::uint64_t bytes = 0;
  for (const link_id link : held.links) {
    const std::uint64_t more = own_bytes(links_[link]);
    if (more > k_most_edge_bytes - bytes) return false;
    bytes += more;
  }
  held.bytes.reset(allocate_aligned(bytes));
  std::byte* place = held.bytes.get();
  if (place == nullptr) return false;
  for (const link_id link : held.links) {
    net_link& state = links_[link];
    if (own_bytes(state) == 0) continue;
    for (net_cell& cell : std::span(state.cells).first(state.cell_count()))
      cell.payload = std::exchange(place, place + cell_bytes(state.spec));
    if (const std::uint64_t more = landing_bytes(state.spec); more != 0)
      state.landing = std::exchange(place, place + more);
  }
  return true;
}

// Both ranks of a pair number the edges of one direction in the same order, so in a frame the index identifies an edge.
void net_links::enumerate(block& held) {
  std::vector<link_id> ordered = held.links;
  std::ranges::sort(ordered, {}, [this](link_id link) { return order_of(links_[link].spec); });
  for (const link_id link : ordered) {
    net_link& state = links_[link];
    std::vector<link_id>& numbered = held.numbered[key_of(state.spec.peer, state.spec.outgoing)];
    state.index = static_cast<std::uint32_t>(numbered.size());
    numbered.push_back(link);
  }
}

std::size_t net_links::control_bytes_of(const net_link& of) {
  constexpr std::size_t records = 3 * sizeof(frame);  // signal or credit, ready, refused
  if (of.spec.signal || !of.spec.outgoing) return records;
  const std::size_t message = sizeof(frame) + sizeof(message_head) + std::min(of.spec.capacity, k_small_bytes);
  return of.cell_count() * message + sizeof(frame);
}

bool net_links::is_unlinked(std::uint32_t id) const {
  const auto found = blocks_.find(id);
  return found != blocks_.end() && !found->second.is_linked;
}

void net_links::link(std::uint32_t id, std::span<const member_address> all) {
  block& held = blocks_.at(id);
  held.is_linked = true;
  for (const link_id link : held.links) {
    const auto place = std::ranges::find(held.members, links_[link].spec.peer) - held.members.begin();
    links_[link].instance = static_cast<std::uint32_t>(all[static_cast<std::size_t>(place)].far);
  }
}

std::span<const link_id> net_links::of(std::uint32_t id) const {
  const auto found = blocks_.find(id);
  return found == blocks_.end() ? std::span<const link_id>() : found->second.links;
}

std::vector<link_id> net_links::link_to_each_peer(std::uint32_t id) const {
  return one_link_per_peer(of(id), [this](link_id link) { return links_[link].spec.peer; });
}

link_id net_links::find(std::uint32_t id, rank peer, bool outgoing, std::uint32_t index) const {
  const auto held = blocks_.find(id);
  if (held == blocks_.end()) return k_no_link;
  const auto found = held->second.numbered.find(key_of(peer, outgoing));
  if (found == held->second.numbered.end() || index >= found->second.size()) return k_no_link;
  return found->second[index];
}

bool net_links::end(std::uint32_t id, const end_reason& reason) {
  const auto found = blocks_.find(id);
  if (found == blocks_.end() || found->second.ended) return false;
  found->second.ended = reason;
  return true;
}

void net_links::free_links_of(const block& held) {
  for (const link_id link : held.links) links_[link].is_live = false;
  free_links_.insert(free_links_.end(), held.links.begin(), held.links.end());
}

void net_links::detach(std::uint32_t id) {
  const auto found = blocks_.find(id);
  if (found == blocks_.end()) return;
  free_links_of(found->second);
  blocks_.erase(found);
}

}  // namespace lsched
