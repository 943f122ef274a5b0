// The opening of a world over several hosts: shared memory inside a host, and the transport net between hosts.
//
//       exchange of cards              agreement                          (rendezvous.cc)
//     ──────────────────►  segment  ──────────────►  sockets to all ranks  ──────────────►
//
// A card has the addresses of a rank. The card of rank 0 has the secret of the job, and the card of the lowest rank of
// a node has the source of the node's segment. Every rank connects to all other ranks.
//
// Ranks form a node if they can share memory: processes of one user in one process name space of one machine.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libsched/transport/net/wire_up.h"
#include "libsched/transport/shm/shm_endpoint.h"
#include "offload/open/rendezvous.h"
#include "offload/open/segment_world.h"

namespace lsched {

/// One rank's part of a world over several hosts.
struct node_place {
  opened_rank opened;
  std::shared_ptr<shm_segment> segment{};  ///< null if the rank is alone on its node
};

/// Connects this rank. Implements connector::connect_nodes(), and has the same arguments. `build`: the library's build.
result<node_place> connect_nodes(const world& place, std::string_view build, std::span<const residence> homes,
                                 const exchange_function& exchange, const connector::agreement& agree,
                                 const segment_options& how);

}  // namespace lsched
