#include "bindings/mpi/hybrid_endpoint.h"

#include <algorithm>

namespace lsched {

// Both transports attach every instance, also one without edges there: ids stay in step.
result<std::vector<link_id>> hybrid_endpoint::attach(std::uint32_t id, bool credits, std::span<const edge_spec> edges) {
  std::vector<edge_spec> near;
  std::vector<edge_spec> far;
  const auto place_of = [this](rank peer) { return std::ranges::lower_bound(node_, peer); };
  const auto is_near = [&](rank peer) { return place_of(peer) != node_.end() && *place_of(peer) == peer; };
  for (const edge_spec& edge : edges) {
    (is_near(edge.peer) ? near : far).push_back(edge);
    if (is_near(edge.peer)) near.back().peer = static_cast<rank>(place_of(edge.peer) - node_.begin());
  }
  auto near_links = near_->attach(id, credits, near);
  if (!near_links) {
    failure why = near_links.error();
    if (why.peer != k_no_rank) why.peer = node_[static_cast<std::size_t>(why.peer)];
    return why;
  }
  auto far_links = far_->attach(id, credits, far);
  if (!far_links) {
    near_->detach(id);
    return far_links.error();
  }
  std::vector<link_id> links;
  std::size_t nears = 0;
  std::size_t fars = 0;
  for (const edge_spec& edge : edges)
    links.push_back(is_near(edge.peer) ? (*near_links)[nears++] << 1 : (*far_links)[fars++] << 1 | 1);
  return links;
}

// MPI's answer is the same everywhere and must not depend on a neighbour's: ask MPI in any case.
status hybrid_endpoint::link(std::uint32_t id) {
  const status near = near_->link(id);
  const status far = far_->link(id);
  return near != status::ok ? near : far;
}

void hybrid_endpoint::detach(std::uint32_t id) {
  near_->detach(id);
  far_->detach(id);
}

std::size_t hybrid_endpoint::poll(std::span<completion> out) {
  far_is_first_ = !far_is_first_;
  endpoint* const first = far_is_first_ ? static_cast<endpoint*>(far_.get()) : near_.get();
  endpoint* const second = far_is_first_ ? static_cast<endpoint*>(near_.get()) : far_.get();
  const std::size_t found = first->poll(out);
  return found < out.size() ? found + second->poll(out.subspan(found)) : found;
}

rank hybrid_endpoint::find_dead_peer() {
  const rank place = near_->find_dead_peer();
  return place == k_no_rank ? k_no_rank : node_[static_cast<std::size_t>(place)];
}

rank hybrid_endpoint::culprit() const {
  const rank place = near_->culprit();
  return place == k_no_rank ? far_->culprit() : node_[static_cast<std::size_t>(place)];
}

// Neighbours learn of it at once; then the bounded shutdown of MPI.
void hybrid_endpoint::close() {
  near_->close();
  far_->close();
}

}  // namespace lsched
