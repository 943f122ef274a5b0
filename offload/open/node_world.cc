#include "offload/open/node_world.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "libsched/transport/hybrid/hybrid_endpoint.h"
#include "libsched/transport/net/net_endpoint.h"
#include "libsched/transport/shm/segment_source.h"
#include "offload/cores.h"
#include "ops/counted.h"
#include "ops/hash.h"

namespace lsched {
namespace {

/// The bytes that each rank sends to all ranks. If a rank has failed, `code` is its status, and the reason takes the
/// place of the addresses.
struct card {
  std::int32_t code;
  std::uint32_t addresses;  ///< number of addresses
  std::uint32_t ranks_per_core;
  std::uint32_t reserved;
  secret_bytes secret;     ///< of rank 0
  segment_source segment;  ///< of the lowest rank of a node with several ranks
  std::array<net_address, net_listener::k_most_addresses> address;
  std::array<std::byte, 16> unused;

  std::string text() const {
    const auto* const first = reinterpret_cast<const char*>(&address);
    return {first, strnlen(first, sizeof address)};
  }
};
static_assert(sizeof(card) == k_exchanged_bytes && std::is_trivially_copyable_v<card>);

/// Returns, for each rank, the lowest rank of its node.
std::vector<rank> nodes_of(std::span<const residence> homes) {
  std::vector<rank> lowest;
  for (const residence& each : homes) {
    const auto first = std::ranges::find_if(homes, [&](const auto& other) { return !find_separation(other, each); });
    lowest.push_back(static_cast<rank>(first - homes.begin()));
  }
  return lowest;
}

std::vector<rank> members_of(const std::vector<rank>& nodes, rank lowest) {
  std::vector<rank> members;
  for (rank r = 0; r < static_cast<rank>(nodes.size()); ++r)
    if (nodes[static_cast<std::size_t>(r)] == lowest) members.push_back(r);
  return members;
}

class node_opening {
 public:
  node_opening(const world& place, std::string_view build, std::span<const residence> homes, const segment_options& how)
      : place_(place), how_(how), nodes_(nodes_of(homes)) {
    const residence& own = homes[static_cast<std::size_t>(place.self)];
    ranks_of_machine_ = static_cast<unsigned>(std::ranges::count(homes, own.machine, &residence::machine));
    lowest_ = nodes_[static_cast<std::size_t>(place.self)];
    members_ = members_of(nodes_, lowest_);
    fnv_hash hash;
    hash.add(build);
    job_.build = hash.value();
  }

  /// Prepares this rank's card, also if this rank has failed.
  card invite() {
    card own{};
    const std::optional<failure> why = prepare(own);
    if (!why) return own;
    own = {};
    own.code = static_cast<std::int32_t>(why->code);
    std::memcpy(&own.address, why->text.data(), std::min(why->text.size(), sizeof own.address - 1));
    return own;
  }

  std::optional<failure> take(const std::vector<card>& all) {
    for (rank r = 0; r < place_.size; ++r) {
      const card& each = all[static_cast<std::size_t>(r)];
      if (each.code != 0)
        return failure{static_cast<status>(each.code), "rank " + std::to_string(r) + ": " + each.text(), r};
      const std::size_t count = std::min<std::size_t>(each.addresses, each.address.size());
      addresses_.emplace_back(each.address.begin(), each.address.begin() + static_cast<std::ptrdiff_t>(count));
      around_.ranks_per_core = std::max(around_.ranks_per_core, static_cast<rank>(each.ranks_per_core));
    }
    job_.secret = all.front().secret;
    source_ = all[static_cast<std::size_t>(lowest_)].segment;
    return std::nullopt;
  }

  std::optional<failure> join_segment() {
    if (members_.size() == 1) return std::nullopt;
    if (lowest_ != place_.self) {
      auto opened = open_segment(source_, static_cast<rank>(members_.size()));
      if (!opened) return opened.error();
      segment_ = std::move(*opened);
    }
    const auto place = static_cast<rank>(std::ranges::find(members_, place_.self) - members_.begin());
    auto near = shm_endpoint::open(segment_, place, how_.shm);
    if (!near) return near.error();
    segment_->record(place).rank_in_world.store(place_.self);
    near_ = std::move(*near);
    return std::nullopt;
  }

  result<node_place> connect() {
    net_limits limits = how_.net_limits;
    limits.wire_up = std::chrono::duration_cast<std::chrono::milliseconds>(how_.start_timeout);
    auto sockets = wire_up(place_, *listener_, job_, addresses_, limits);
    if (!sockets) return sockets.error();
    auto far =
        net_endpoint::open(place_, std::move(*sockets),
                           {.bell = near_ != nullptr ? &near_->bell() : nullptr, .lost_after = limits.lost_after});
    if (!far) return far.error();
    around_.ranks = ranks_of_machine_;
    around_.cores = usable_cores();
    around_.nodes = nodes_;
    const std::size_t others = static_cast<std::size_t>(place_.size) - members_.size();
    around_.description = "TCP with " + counted(others, "rank");
    if (near_ == nullptr) return node_place{{std::move(*far), around_, ""}};
    around_.description = "shared memory with " + counted(members_.size() - 1, "rank") + ", " + around_.description;
    net_endpoint* const network = far->get();
    const auto inform = [network](rank lost) { network->record_lost(lost); };
    auto both = std::make_unique<hybrid_endpoint>(std::move(near_), std::move(*far), members_, "shm+net", inform);
    return node_place{{std::move(both), around_, ""}, segment_};
  }

 private:
  std::optional<failure> prepare(card& own) {
    auto listener = net_listener::open(how_.interfaces);
    if (!listener) return listener.error();
    own.addresses = static_cast<std::uint32_t>(listener->addresses().size());
    std::ranges::copy(listener->addresses(), own.address.begin());
    listener_ = std::move(*listener);
    own.ranks_per_core = ranks_per_core(ranks_of_machine_, usable_cores());
    if (place_.self == 0 && !draw_secret(own.secret)) return failure{status::unsupported, "getrandom has failed"};
    if (lowest_ != place_.self || members_.size() == 1) return std::nullopt;
    const std::string recorder = how_.recorder.empty() ? "" : how_.recorder + "." + std::to_string(lowest_);
    auto made = shm_segment::create(static_cast<rank>(members_.size()), how_.region_bytes, usable_cores(), recorder);
    if (!made) return made.error();
    segment_ = std::move(*made);
    own.segment = source_of(*segment_);
    return std::nullopt;
  }

  const world place_;
  const segment_options& how_;
  const std::vector<rank> nodes_;
  unsigned ranks_of_machine_ = 1;
  rank lowest_ = 0;            ///< lowest rank of this node
  std::vector<rank> members_;  ///< ranks of this node, ascending
  net_job job_;
  std::optional<net_listener> listener_;
  std::vector<std::vector<net_address>> addresses_;
  segment_source source_{};
  std::shared_ptr<shm_segment> segment_;
  std::unique_ptr<shm_endpoint> near_;
  neighbourhood around_;
};

}  // namespace

result<node_place> connect_nodes(const world& place, std::string_view build, std::span<const residence> homes,
                                 const exchange_function& exchange, const connector::agreement& agree,
                                 const segment_options& how) {
  node_opening opening(place, build, homes, how);
  const card own = opening.invite();
  std::vector<card> all(static_cast<std::size_t>(place.size));
  if (const int answer = exchange(&own, all.data(), sizeof own); answer != 0)
    return failure{status::transport, "the caller's exchange function failed, and returned " + std::to_string(answer)};
  if (const auto why = opening.take(all)) return *why;  // on all ranks
  if (const auto why = agree(opening.join_segment())) return *why;
  return opening.connect();
}

}  // namespace lsched
