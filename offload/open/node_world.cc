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
#include "offload/open/adoption.h"
#include "offload/open/launch_exchange.h"
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
  std::uint32_t is_encrypted;
  secret_bytes secret;     ///< only in the card of rank 0
  segment_source segment;  ///< only in the card of the lowest rank of a node that has a segment
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
      : place_(place), how_(how), homes_(homes.begin(), homes.end()), nodes_(nodes_of(homes)) {
    const residence& own = homes[static_cast<std::size_t>(place.self)];
    ranks_of_machine_ = static_cast<unsigned>(std::ranges::count(homes, own.machine, &residence::machine));
    lowest_ = nodes_[static_cast<std::size_t>(place.self)];
    members_ = members_of(nodes_, lowest_);
    fnv_hash hash;
    hash.add(build);
    job_.build = hash.value();
  }

  bool is_one_node() const { return members_.size() == nodes_.size(); }

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

  std::optional<failure> read(const std::vector<card>& all) {
    for (rank r = 0; r < place_.size; ++r) {
      const card& each = all[static_cast<std::size_t>(r)];
      if (each.code != 0)
        return failure{static_cast<status>(each.code), "rank " + std::to_string(r) + ": " + each.text(), r};
      const std::size_t count = std::min<std::size_t>(each.addresses, each.address.size());
      addresses_.emplace_back(each.address.begin(), each.address.begin() + static_cast<std::ptrdiff_t>(count));
      around_.ranks_per_core = std::max(around_.ranks_per_core, static_cast<rank>(each.ranks_per_core));
    }
    const auto is_other = [&](const card& each) { return each.is_encrypted != all.front().is_encrypted; };
    if (const auto other = std::ranges::find_if(all, is_other); other != all.end())
      return failure{status::argument,
                     "rank 0 and rank " + std::to_string(other - all.begin()) +
                         " disagree about encryption: set LSCHED_NET_ENCRYPT to the same value on all hosts"};
    const secret_bytes& drawn = all.front().secret;
    job_.secret = how_.known_secret ? blake2s(*how_.known_secret, drawn) : drawn;
    source_ = all[static_cast<std::size_t>(lowest_)].segment;
    return std::nullopt;
  }

  std::optional<failure> join_segment() {
    if (has_no_segment()) return std::nullopt;
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

  /// Returns this rank's access to a world of one node. join_segment() must have succeeded.
  opened_rank take() { return {std::move(near_), neighbourhood_of(*segment_, how_.ranks_per_node), ""}; }

  /// Connects this rank to the ranks of other nodes.
  result<opened_rank> connect() {
    net_limits limits = how_.net_limits;
    limits.wire_up = std::chrono::duration_cast<std::chrono::milliseconds>(how_.connect_timeout);
    auto sockets = wire_up(place_, *listener_, job_, addresses_, limits);
    if (!sockets) return with_choice(sockets.error());
    note_hosts(*sockets);
    auto far =
        net_endpoint::open(place_, std::move(*sockets),
                           {.bell = near_ != nullptr ? &near_->bell() : nullptr, .lost_after = limits.lost_after},
                           listener_->take_sockets());
    if (!far) return far.error();
    around_.ranks = ranks_of_machine_;
    around_.cores = usable_cores();
    around_.nodes = nodes_;
    around_.uses_tcp = true;
    const std::size_t others = static_cast<std::size_t>(place_.size) - members_.size();
    around_.description =
        "TCP with " + counted(others, "rank") + " from " + own_hosts_ + (how_.encrypts ? " (encrypted)" : "");
    if (!how_.interfaces_from.empty()) around_.description += " on the interfaces of " + how_.interfaces_from;
    if (near_ == nullptr) return opened_rank{std::move(*far), around_, ""};
    if (members_.size() > 1)
      around_.description = "shared memory with " + counted(members_.size() - 1, "rank") + ", " + around_.description;
    net_endpoint* const network = far->get();
    const auto inform = [network](rank lost) { network->record_lost(lost); };
    auto both = std::make_unique<hybrid_endpoint>(std::move(near_), std::move(*far), members_, "shm+net", inform);
    return opened_rank{std::move(both), around_, ""};
  }

  /// Returns TRANSPORT if a rank of this node has mapped another segment. All ranks must have called join_segment().
  std::optional<failure> confirm() const {
    if (segment_ == nullptr || is_seen_by_all(*segment_)) return std::nullopt;
    return failure{status::transport, "a rank has mapped other shared memory than rank " + std::to_string(lowest_) +
                                          ": the exchange has not given the same records to all ranks"};
  }

 private:
  /// Stores the addresses by which this rank is connected to ranks of other nodes. The addresses are shown in texts.
  void note_hosts(const std::vector<net_sockets>& sockets) {
    around_.hosts.resize(sockets.size());
    for (std::size_t r = 0; r < sockets.size(); ++r) {
      if (nodes_[r] == lowest_) continue;
      const std::string own = own_end(sockets[r].control.get()).host();
      around_.hosts[r] = std::string(homes_[r].host.data()) + ", " + peer_end(sockets[r].control.get()).host();
      if (own_hosts_.find(own) == std::string::npos) own_hosts_ += (own_hosts_.empty() ? "" : ", ") + own;
    }
  }

  /// If `why` is a failure of the network, adds the name of the variable that has chosen the interfaces to the text,
  /// unless the text already has this name.
  failure with_choice(failure why) const {
    const bool is_of_network = why.code == status::unsupported || why.code == status::timeout;
    if (is_of_network && why.text.find(how_.interfaces_from) == std::string::npos)
      why.text += ". " + how_.interfaces_from + " has chosen the interfaces of this rank";
    return why;
  }

  /// Returns whether this rank needs no shared memory: the world has several nodes, this rank has no other rank on its
  /// node, and there is no recorder.
  bool has_no_segment() const { return members_.size() == 1 && !is_one_node() && how_.recorder.empty(); }

  std::optional<failure> prepare(card& own) {
    if (is_one_node()) return create_segment(own, how_.recorder);
    auto listener = net_listener::open(how_.interfaces);
    if (!listener) return with_choice(listener.error());
    own.addresses = static_cast<std::uint32_t>(listener->addresses().size());
    std::ranges::copy(listener->addresses(), own.address.begin());
    listener_ = std::move(*listener);
    if (how_.encrypts) {
      auto library = tls_library::load();
      if (!library) return library.error();
      job_.encryption = *library;
      own.is_encrypted = 1;
    }
    own.ranks_per_core = ranks_per_core(ranks_of_machine_, usable_cores());
    if (place_.self == 0 && !draw_secret(own.secret)) return failure{status::unsupported, "getrandom has failed"};
    if (has_no_segment()) return std::nullopt;
    return create_segment(own, how_.recorder.empty() ? "" : how_.recorder + "." + std::to_string(lowest_));
  }

  /// Creates the segment of this node, if this rank is the lowest of the node.
  std::optional<failure> create_segment(card& own, const std::string& recorder) {
    if (lowest_ != place_.self) return std::nullopt;
    auto made = shm_segment::create(static_cast<rank>(members_.size()), how_.region_bytes, usable_cores(), recorder);
    if (!made) return made.error();
    segment_ = std::move(*made);
    own.segment = source_of(*segment_);
    return std::nullopt;
  }

  const world place_;
  const segment_options& how_;
  const std::vector<residence> homes_;
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
  std::string own_hosts_;  ///< addresses of this rank
};

class node_connector final : public connector {
 public:
  node_connector(const world& place, std::string_view build, const result<segment_options>& how)
      : place_(place), build_(build), how_(how) {}

  std::optional<failure> connect(std::span<const residence> homes, const exchange_function& exchange,
                                 const agreement& agree) override {
    node_opening& opening = opening_.emplace(place_, build_, homes, *how_);
    const card own = opening.invite();
    std::vector<card> all(static_cast<std::size_t>(place_.size));
    if (auto why = exchange(&own, all.data(), sizeof own)) return why;
    if (auto why = opening.read(all)) return why;  // all ranks return here, because all ranks have read the same cards
    auto why = opening.join_segment();
    if (!opening.is_one_node()) why = agree(why);
    if (why) return why;
    auto made = opening.is_one_node() ? opening.take() : opening.connect();
    if (!made) return made.error();
    made_ = std::move(*made);
    return std::nullopt;
  }

  std::optional<failure> confirm() override { return opening_->confirm(); }

  /// Returns this rank's access to the world. The rendezvous must have succeeded.
  opened_rank take() { return std::move(made_); }

 private:
  const world place_;
  const std::string_view build_;
  const result<segment_options>& how_;
  std::optional<node_opening> opening_;
  opened_rank made_;
};

}  // namespace

result<opened_rank> open_by_rendezvous(const world& place, std::string_view build, const exchange_function& exchange,
                                       const result<segment_options>& how) {
  node_connector way(place, build, how);
  const std::optional<failure> unable = how ? std::nullopt : std::optional(how.error());
  residence home = find_residence();
  if (how && how->ranks_per_node > 0 && how->ranks_per_node < place.size) {
    const auto group = static_cast<std::uint64_t>(place.self / how->ranks_per_node);
    home.processes ^= group << 40;  // as if each group lived in a process name space of its own
  }
  if (const auto why = meet({place, build, home, unable}, exchange, way)) return *why;
  return way.take();
}

result<opened_rank> open_over_hosts(const launch& where, std::string_view build, const segment_options& how) {
  if (const auto why = adopt_exchange(where)) return *why;
  return open_by_rendezvous({where.self, where.size}, build,
                            exchange_with_launcher(where, how.start_timeout, how.later_timeout()), how);
}

}  // namespace lsched
