// Start-up under MPI: finds out which ranks share a node, and opens the endpoint that suits.
//
// Locality is found by mapping, not guessed. MPI names candidates; the first rank of each such group creates a segment
// (a memory file without a name), and the others open its descriptor through /proc; all map it and check that they see
// each other in it. If one of a group cannot, its whole group uses MPI, and mpi_info says why.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "bindings/mpi/mpi_endpoint.h"
#include "libsched/transport/endpoint.h"
#include "libsched/transport/shm/shm_endpoint.h"

namespace lsched {

enum class mpi_transport : std::uint8_t {
  automatic,  ///< shared memory inside nodes, MPI between them
  mpi_only,
};

/// Equal on all ranks; if not, all of them are told.
struct mpi_options {
  mpi_transport transport = mpi_transport::automatic;
  rank ranks_per_node = 0;         ///< 0: real nodes; k: every k consecutive ranks that share a node play one
  std::uint64_t region_bytes = 0;  ///< address space of a rank in shared memory; 0: the machine's memory size
  mpi_limits limits{};
  shm_options shm{};  ///< may differ
};

/// What was found, at this rank.
struct mpi_info {
  rank node_ranks = 1;                   ///< on this machine, itself included: they compete for its cores
  unsigned node_cores = 1;               ///< that they may use together
  rank ranks_per_core = 1;               ///< rounded up, on the node where it is worst; equal on all ranks
  std::vector<rank> nodes{};             ///< by rank, the lowest rank that it shares memory with; empty: all share
  rank sharing_ranks = 1;                ///< that share memory with this one, itself included
  bool allows_auxiliary_thread = false;  ///< MPI_THREAD_MULTIPLE, or no two ranks talk through MPI
  std::string text{};                    ///< "shared memory with 3 ranks, MPI with 4", or why not
  const std::string& describe() const { return text; }
};

/// Opens this rank's endpoint over a duplicate of `comm`. Collective over `comm`; every rank returns the same
/// status. Blocks until all ranks have called; nothing in it waits longer than 10 s for a rank that has.
/// `info` may be null.
result<std::unique_ptr<endpoint>> open_mpi_endpoint(MPI_Comm comm, const mpi_options& options,
                                                    mpi_info* info = nullptr);

}  // namespace lsched
