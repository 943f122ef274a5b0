// Start-up under MPI: finds the ranks that share a node, and opens the suitable endpoint.
//
// MPI reports groups of ranks that may share memory. Each group tests whether its ranks can share memory. The first
// rank of the group creates a segment (a memory file without a name), and the other ranks open its descriptor through
// /proc. All ranks map the segment, and check that they can read each other's writes. If one rank fails, its whole
// group uses MPI, and `found->description` contains the reason.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "bindings/mpi/mpi_endpoint.h"
#include "libsched/transport/endpoint.h"
#include "libsched/transport/shm/shm_endpoint.h"
#include "offload/neighbourhood.h"

namespace lsched {

/// Options, which must be equal on all ranks. If they differ, all ranks fail.
struct mpi_options {
  bool uses_mpi_alone = false;     ///< if false, shared memory is used inside nodes, and MPI between nodes
  rank ranks_per_node = 0;         ///< 0: real nodes; k: every k consecutive ranks of a node act as a node
  std::uint64_t region_bytes = 0;  ///< size of a rank's region of shared memory; 0: the machine's memory size
  std::string recorder{};          ///< file of the recording, FILE.RANK with several nodes; empty: no file
  mpi_limits limits{};
  shm_options shm{};  ///< may differ between ranks
};

/// Opens this rank's endpoint over a duplicate of `comm`. Collective over `comm`. All ranks return the same status.
/// Blocks until all ranks have called.
///
/// Sets *found, unless `found` is null. `found->ranks` and `found->cores` refer to this machine.
/// `found->may_have_thread` is true with MPI_THREAD_MULTIPLE, or if no two ranks communicate through MPI.
/// `found->description` is, for example, "shared memory with 3 ranks, MPI with 4", or the reason why memory is not
/// shared. `found->nodes` has, for each rank, the lowest rank with which it shares memory. Sets *far_part, unless null,
/// to the part of the result that calls MPI.
result<std::unique_ptr<endpoint>> open_mpi_endpoint(MPI_Comm comm, const mpi_options& options,
                                                    neighbourhood* found = nullptr, mpi_endpoint** far_part = nullptr);

}  // namespace lsched
