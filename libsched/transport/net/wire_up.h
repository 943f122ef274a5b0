// Connects the ranks of a job by sockets. (docs/inside/net.md)
//
// Every rank listens. The caller sends the addresses of each rank to all other ranks. Then each rank connects to all
// lower ranks, and accepts the connections of all higher ranks. Each connection begins with a handshake (handshake.h).
// The handshake proves that the connection has reached the right rank of the right job. If an address also exists on
// another host, only one attempt fails, and the job continues.
//
// The endpoint keeps the listening sockets open. So other ranks can find out whether the process of this rank still
// exists (net_endpoint_peers.cc).
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "libsched/transport/net/descriptor.h"
#include "libsched/transport/net/handshake.h"
#include "libsched/transport/net/net_address.h"
#include "libsched/transport/net/net_endpoint.h"
#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

/// Listening sockets on the chosen interfaces.
class net_listener {
 public:
  static constexpr std::size_t k_most_addresses = 7;  ///< maximum for a rank (offload/open/node_world.cc)

  /// Returns UNSUPPORTED if no interface fits or no port is free.
  static result<net_listener> open(const net_interfaces& chosen);

  /// Returns the addresses of the sockets.
  const std::vector<net_address>& addresses() const { return addresses_; }
  const std::vector<descriptor>& sockets() const { return sockets_; }
  /// Gives the sockets to the caller. The listener must not be used afterwards.
  std::vector<descriptor> take_sockets() { return std::move(sockets_); }

 private:
  std::vector<net_address> addresses_;
  std::vector<descriptor> sockets_;
};

struct net_limits {
  std::chrono::milliseconds wire_up{30000};    ///< time until all ranks are connected
  std::chrono::milliseconds attempt{1000};     ///< time for one address of a peer
  std::chrono::milliseconds handshake{2000};   ///< time for the handshake of an accepted connection
  std::chrono::milliseconds lost_after{3000};  ///< silence of a peer's kernel after which the peer is lost
  std::chrono::milliseconds least_proof{500};  ///< least time that a peer has for its proof, even if other peers wait
  std::size_t most_strangers = 64;             ///< maximum number of unproven connections beyond the awaited ones
};

/// Connects this rank with all other ranks of `place`. `addresses` has an entry for each rank, and this rank's own
/// entry is ignored. Blocks until this rank is connected with all other ranks, or has failed. All ranks must call this
/// function. If a rank could not be reached in time, returns TIMEOUT with that rank and the reason.
result<std::vector<net_sockets>> wire_up(const world& place, const net_listener& listener, const net_job& job,
                                         const std::vector<std::vector<net_address>>& addresses,
                                         const net_limits& limits = {});

}  // namespace lsched
