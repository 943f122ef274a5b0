// Opens a world by a rendezvous. Ranks of one node use shared memory. Ranks of different nodes use the transport net.
//
//       exchange of cards              agreement                          (rendezvous.cc)
//     ──────────────────►  segment  ──────────────►  sockets to all ranks  ──────────────►
//
// Ranks form a node if they can share memory: processes of one user in one process name space of one machine. The
// lowest rank of a node creates the node's segment, and the card of that rank has the data by which the other ranks of
// the node open the segment. A card also has the addresses of a rank, and the card of rank 0 has the secret of the job.
// Every rank connects to all other ranks.
//
// If all ranks form one node, there are no addresses, no agreement and no sockets.
#pragma once

#include <string_view>

#include "offload/open/rendezvous.h"
#include "offload/open/segment_world.h"

namespace lsched {

/// Opens a world by a rendezvous of processes on any hosts. `build` names the library's build. If `how` is a failure,
/// this rank takes part in the rendezvous, so that the other ranks fail too. If how->ranks_per_node is set, the ranks
/// of a host form groups that share no memory with each other, and each group acts as a host.
result<opened_rank> open_by_rendezvous(const world& place, std::string_view build, const exchange_function& exchange,
                                       const result<segment_options>& how);

/// Opens the world of `lsched run --hosts` as the rank in `where`, by a rendezvous through the launcher
/// (launch_exchange.h). Returns STATE if this process is not a rank, but was started by a rank.
result<opened_rank> open_over_hosts(const launch& where, std::string_view build, const segment_options& how);

}  // namespace lsched
