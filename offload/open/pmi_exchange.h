// The exchange (rendezvous.h) among ranks that a process manager of MPI has started. The exchange uses the wire
// protocol PMI-1, without a library.
//
// MPICH's mpiexec gives each process a socket, PMI_FD. On this socket, each request is a line such as "cmd=get
// kvsname=kvs_0 key=k". Each answer is a line, too. For an exchange, each rank puts its record, enters a barrier, and
// gets the records of all ranks.
//
// A process manager accepts only one client in each process. So a process that has loaded MPI, or a library of PMI,
// must not use this exchange. After the world is open, the client is finalized, and the process may end without a
// further message to the process manager.
#pragma once

#include <chrono>
#include <string_view>

#include "offload/open/launch.h"
#include "offload/open/segment_world.h"

namespace lsched {

/// Opens a world by a rendezvous through the process manager. This process becomes the rank in `where`, and the
/// descriptor in `where` is PMI_FD. A process may call this function only once. Returns STATE if a rank has started
/// this process, or if the rank has joined already.
result<opened_rank> open_over_pmi(const launch& where, std::string_view build, const segment_options& how);

}  // namespace lsched
