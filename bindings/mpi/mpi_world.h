// Start-up under MPI: finds out which ranks share a node, and opens the endpoint that suits.
//
// Locality is found by mapping, not guessed. MPI names candidates; the first rank of each such group creates a segment
// (a memory file without a name), and the others open its descriptor through /proc; all map it and check that they see
// each other in it. If one of a group cannot, its whole group uses MPI, and a remark says why.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "bindings/mpi/mpi_endpoint.h"
#include "libsched/transport/endpoint.h"
#include "libsched/transport/shm/shm_endpoint.h"
#include "offload/neighbourhood.h"

namespace lsched {

/// Equal on all ranks; if not, all of them are told.
struct mpi_options {
  bool uses_mpi_alone = false;     ///< false: shared memory inside nodes, MPI between them
  rank ranks_per_node = 0;         ///< 0: real nodes; k: every k consecutive ranks that share a node play one
  std::uint64_t region_bytes = 0;  ///< address space of a rank in shared memory; 0: the machine's memory size
  std::string recorder{};          ///< the file for the recording, FILE.RANK on several nodes; empty: none
  mpi_limits limits{};
  shm_options shm{};  ///< may differ
};

/// Opens this rank's endpoint over a duplicate of `comm`. Collective over `comm`; every rank returns the same
/// status. Blocks until all ranks have called; nothing in it waits longer than 10 s for a rank that has.
///
/// `found` (may be null): its ranks and cores are those of this machine; it may have a thread with MPI_THREAD_MULTIPLE,
/// or where no two ranks talk through MPI; the remark is "shared memory with 3 ranks, MPI with 4", or why not. Of ranks
/// that share memory, nodes has the lowest. `far_part` (may be null): the part of the result that calls MPI.
result<std::unique_ptr<endpoint>> open_mpi_endpoint(MPI_Comm comm, const mpi_options& options,
                                                    neighbourhood* found = nullptr, mpi_endpoint** far_part = nullptr);

}  // namespace lsched
