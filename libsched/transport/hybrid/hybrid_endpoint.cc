#include "libsched/transport/hybrid/hybrid_endpoint.h"

#include <algorithm>

namespace lsched {

/// A hybrid board (libsched/transport/board.h) is in shared memory if all members are on this node. Otherwise it uses
/// the far transport. open_home_board() chooses the transport for the board of all ranks. join(), offer() or regroup()
/// chooses the transport for every other board.
class hybrid_board final : public board {
 public:
  hybrid_board(const hybrid_endpoint& of, std::unique_ptr<board> near, std::unique_ptr<board> far)
      : of_(of), near_(std::move(near)), far_(std::move(far)) {}

  member_address address() const override { return {.near = near_->address().near, .far = far_->address().far}; }

  std::uint64_t number() const override { return used().number(); }

  status join(std::span<const rank> members, std::span<const member_address> all) override {
    const std::vector<rank> places = choose(members);
    return near_ != nullptr ? near_->join(places, all) : far_->join(members, all);
  }

  void offer(std::uint64_t key, std::span<const rank> members) override {
    const std::vector<rank> places = choose(members);
    used().offer(key, near_ != nullptr ? std::span<const rank>(places) : members);
  }
  status meet(rank* missing) override {
    const status answer = used().meet(missing);
    if (answer != status::ok) return answer;
    const std::span<const rank> homes = used().homes();
    homes_ = near_ != nullptr ? of_.ranks_at(homes) : std::vector(homes.begin(), homes.end());
    return answer;
  }
  bool withdraw() override { return used().withdraw(); }

  status regroup(board& former) override {
    const auto& before = static_cast<hybrid_board&>(former);
    (before.near_ != nullptr ? far_ : near_).reset();
    return used().regroup(before.used());
  }
  std::span<const rank> homes() const override { return homes_; }

  status post(std::span<const std::byte> record, rank* missing) override { return used().post(record, missing); }
  status gather(std::span<std::byte> all, rank* missing) override { return used().gather(all, missing); }
  void give_up(rank missing) override { used().give_up(missing); }

 private:
  /// Chooses one of the two boards, depending on the members. Returns the result of places_of(members).
  std::vector<rank> choose(std::span<const rank> members) {
    std::vector<rank> places = of_.places_of(members);
    (places.size() == members.size() ? far_ : near_).reset();
    return places;
  }

  board& used() const { return near_ != nullptr ? *near_ : *far_; }

  const hybrid_endpoint& of_;
  std::vector<rank> homes_{};  ///< the members as ranks of the launch; set by meet() after a regroup
  std::unique_ptr<board> near_, far_;
};

result<std::unique_ptr<board>> hybrid_endpoint::open_board(std::size_t most) {
  auto near = near_->open_board(most);
  if (!near) return near;
  auto far = far_->open_board(most);
  if (!far) return far;
  return std::unique_ptr<board>(std::make_unique<hybrid_board>(*this, std::move(*near), std::move(*far)));
}

std::unique_ptr<board> hybrid_endpoint::open_home_board() {
  const bool is_one_node = static_cast<rank>(node_.size()) == place().size;
  return std::make_unique<hybrid_board>(*this, is_one_node ? near_->open_home_board() : nullptr,
                                        is_one_node ? nullptr : far_->open_home_board());
}

/// Returns the indices of those `members` that are on this node.
std::vector<std::size_t> hybrid_endpoint::indices_here(std::span<const rank> members) const {
  std::vector<std::size_t> here;
  for (std::size_t m = 0; m < members.size(); ++m)
    if (place_of(members[m])) here.push_back(m);
  return here;
}

/// Returns the places of those `members` that are on this node. A place is also the rank in the shared segment.
std::vector<rank> hybrid_endpoint::places_of(std::span<const rank> members) const {
  std::vector<rank> places;
  for (const std::size_t m : indices_here(members)) places.push_back(*place_of(members[m]));
  return places;
}

std::vector<rank> hybrid_endpoint::ranks_at(std::span<const rank> places) const {
  std::vector<rank> ranks;
  for (const rank place : places) ranks.push_back(node_[static_cast<std::size_t>(place)]);
  return ranks;
}

// An instance is attached to both transports, even if it has no edges in one of them.
result<std::vector<link_id>> hybrid_endpoint::attach(std::uint32_t id, std::span<const rank> members, bool credits,
                                                     std::span<const edge_spec> edges) {
  std::vector<edge_spec> near;
  std::vector<edge_spec> far;
  const auto is_near = [this](rank peer) { return place_of(peer).has_value(); };
  for (const edge_spec& edge : edges) {
    (is_near(edge.peer) ? near : far).push_back(edge);
    if (is_near(edge.peer)) near.back().peer = *place_of(edge.peer);
  }
  auto near_links = near_->attach(id, places_of(members), credits, near);
  if (!near_links) {
    failure why = near_links.error();
    if (why.peer != k_no_rank) why.peer = node_[static_cast<std::size_t>(why.peer)];
    return why;
  }
  auto far_links = far_->attach(id, members, credits, far);
  if (!far_links) {
    near_->detach(id);
    return far_links.error();
  }
  members_.emplace(id, std::vector<rank>(members.begin(), members.end()));
  std::vector<link_id> links;
  std::size_t nears = 0;
  std::size_t fars = 0;
  for (const edge_spec& edge : edges)
    links.push_back(is_near(edge.peer) ? (*near_links)[nears++] << 1 : (*far_links)[fars++] << 1 | 1);
  return links;
}

member_address hybrid_endpoint::address_of(std::uint32_t id) const {
  return {.near = near_->address_of(id).near, .far = far_->address_of(id).far};
}

// The far transport links the instance even if linking over shared memory has failed. Otherwise, linking over the far
// transport could have different results on different ranks.
status hybrid_endpoint::link(std::uint32_t id, std::span<const member_address> all) {
  const auto& members = members_.at(id);
  if (all.size() != members.size()) return status::internal;
  std::vector<member_address> of_node;
  for (const std::size_t m : indices_here(members)) of_node.push_back(all[m]);
  const status near = near_->link(id, of_node);
  const status far = far_->link(id, all);
  return near != status::ok ? near : far;
}

// Pending cancellations are passed on first, because they must not reach a later instance with the same id.
void hybrid_endpoint::detach(std::uint32_t id) {
  pass_on_cancellations();
  near_->detach(id);
  far_->detach(id);
  members_.erase(id);
}

// `reason.who` is a rank of the launch. It is not converted to a place for shared memory, because transport `shm` does
// not interpret this rank.
void hybrid_endpoint::cancel(std::uint32_t id, const end_reason& reason) {
  near_->cancel(id, reason);
  far_->cancel(id, reason);
}

void hybrid_endpoint::close_to_readers(std::uint32_t id, const end_reason& reason) {
  near_->close_to_readers(id, reason);
  far_->close_to_readers(id, reason);
}

void hybrid_endpoint::abandon(std::uint32_t id) {
  near_->abandon(id);
  far_->abandon(id);
}

status hybrid_endpoint::check_readers(std::uint32_t id, rank* reader) {
  const status near = near_->check_readers(id, reader);
  if (near == status::pending) *reader = node_[static_cast<std::size_t>(*reader)];
  return near == status::ok ? far_->check_readers(id, reader) : near;
}

// Passes cancellations from one transport to the other. The far transport also reports each cancellation that it gets
// from shared memory. So a cancellation is reported to the user only when the far transport reports it.
void hybrid_endpoint::pass_on_cancellations() {
  while (const auto news = near_->take_cancellation()) {
    if (news->is_departure)
      report_cancelled({news->instance, {node_[static_cast<std::size_t>(news->reason.who)], status::peer}, true});
    else
      far_->cancel(news->instance, news->reason);
  }
  while (const auto news = far_->take_cancellation()) {
    if (!news->is_departure) near_->cancel(news->instance, news->reason);
    report_cancelled(*news);
  }
}

std::size_t hybrid_endpoint::poll(std::span<completion> out) {
  far_is_first_ = !far_is_first_;
  endpoint* const first = far_is_first_ ? static_cast<endpoint*>(far_.get()) : near_.get();
  endpoint* const second = far_is_first_ ? static_cast<endpoint*>(near_.get()) : far_.get();
  std::size_t found = first->poll(out);
  if (found < out.size()) found += second->poll(out.subspan(found));
  pass_on_cancellations();
  collect_losses();
  set_moving(far_->is_moving());
  return found;
}

// Returns the place of a rank within this node, or nothing for a rank on another node.
std::optional<rank> hybrid_endpoint::place_of(rank who) const {
  const auto found = std::ranges::lower_bound(node_, who);
  if (found == node_.end() || *found != who) return std::nullopt;
  return static_cast<rank>(found - node_.begin());
}

std::optional<round_no> hybrid_endpoint::entered_by(rank who, std::uint32_t id) const {
  const auto place = place_of(who);
  return place ? near_->entered_by(*place, id) : std::nullopt;
}

wait_note hybrid_endpoint::wait_of(rank who) const {
  const auto place = place_of(who);
  return place ? near_->wait_of(*place) : wait_note{};
}

rank_state hybrid_endpoint::state_of(rank who) const {
  const auto place = place_of(who);
  return place ? near_->state_of(*place) : rank_state::unknown;
}

// A rank of this node may have ended because a rank of another node has died. Shared memory may show this end before
// the far transport reports the death. So the far transport first searches for losses, and its losses are recorded
// first.
void hybrid_endpoint::collect_losses() {
  for (rank near = near_->take_loss(); near != k_no_rank; near = near_->take_loss()) {
    near_losses_.push_back(node_[static_cast<std::size_t>(near)]);
    (void)far_->liveness().find_dead_peer();
  }
  for (rank far; (far = far_->take_loss()) != k_no_rank;) {
    if (!place_of(far) || std::erase(near_losses_, far) != 0)
      record_lost(far);
    else if (!is_lost(far))
      reported_.push_back(far);
  }
  for (const rank near : near_losses_) {
    if (inform_far_) inform_far_(near);
    record_lost(near);
  }
  near_losses_.clear();
}

// Records the first `number` losses of reported_. Another host has reported the loss of a rank of this node. That rank
// may still be alive, for example if only its connection has failed. All other ranks record this loss, so this rank
// must record the loss, too. A report is recorded only in the next search for dead peers. If the rank has died, shared
// memory shows the death before that search. So deaths on this node are recorded in the order in which they occurred.
void hybrid_endpoint::record_reports(std::size_t number) {
  for (std::size_t i = 0; i < number; ++i) record_lost(reported_[i]);
  reported_.erase(reported_.begin(), reported_.begin() + static_cast<std::ptrdiff_t>(number));
}

void hybrid_endpoint::record_lost(rank who) {
  if (is_lost(who)) return;
  const std::size_t number = lost_.load();
  losses_[number].store(who);
  lost_.store(number + 1);
  report_lost(who);
}

bool hybrid_endpoint::is_lost(rank who) const {
  for (std::size_t i = 0; i < lost_.load(); ++i)
    if (losses_[i].load() == who) return true;
  return false;
}

rank hybrid_endpoint::lost_after(rank others) const {
  const auto place = static_cast<std::size_t>(others);
  return place < lost_.load() ? losses_[place].load() : k_no_rank;
}

rank hybrid_endpoint::find_dead_peer() {
  const std::size_t earlier_reports = reported_.size();
  (void)near_->find_dead_peer();
  (void)near_->poll({});  // near_ reports the losses that the segment has recorded
  (void)far_->liveness().find_dead_peer();
  collect_losses();
  record_reports(earlier_reports);
  return lost_after(0);
}

rank hybrid_endpoint::culprit() const {
  const rank place = near_->culprit();
  return place == k_no_rank ? far_->liveness().culprit() : node_[static_cast<std::size_t>(place)];
}

// Shared memory is closed first, so that ranks of this node detect the close at once. Closing the far transport takes a
// bounded time.
void hybrid_endpoint::close() {
  near_->close();
  far_->close();
}

}  // namespace lsched
