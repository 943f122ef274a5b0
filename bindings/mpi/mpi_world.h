// Start-up under MPI: finds the ranks that share a node, and opens the suitable endpoint.
//
// MPI reports groups of ranks that may share memory. Each group verifies this by mapping a segment. The first rank of
// the group creates the segment (a memory file without a name), and the other ranks open the segment's descriptor
// through /proc. All ranks of the group map the segment, and check that they see each other's writes. If one rank of a
// group fails, its whole group uses MPI, and `remark` contains the reason.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "bindings/mpi/mpi_endpoint.h"
#include "libsched/transport/endpoint.h"
#include "libsched/transport/shm/shm_endpoint.h"
#include "offload/neighbourhood.h"

namespace lsched {

/// Options that must be equal on all ranks. If they differ, all ranks fail.
struct mpi_options {
  bool uses_mpi_alone = false;     ///< false: shared memory inside nodes, MPI between them
  rank ranks_per_node = 0;         ///< 0: real nodes; k: every k consecutive ranks of a node act as a node
  std::uint64_t region_bytes = 0;  ///< address space of a rank in shared memory; 0: the machine's memory size
  std::string recorder{};          ///< file of the recording, FILE.RANK on several nodes; empty: none
  mpi_limits limits{};
  shm_options shm{};  ///< may differ between ranks
};

/// Opens this rank's endpoint over a duplicate of `comm`. Collective over `comm`. All ranks return the same status.
/// Blocks until all ranks have called. After a rank has called, waits at most 10 s for this rank.
///
/// `found` (may be null) receives the neighbourhood. `found->ranks` and `found->cores` refer to this machine. A
/// progress thread is allowed with MPI_THREAD_MULTIPLE, or if no two ranks communicate through MPI. `found->remark` is,
/// for example, "shared memory with 3 ranks, MPI with 4", or the reason why memory is not shared. `found->nodes`
/// contains, for each rank, the lowest rank that shares memory with that rank. `far_part` (may be null) receives the
/// part of the result that calls MPI.
result<std::unique_ptr<endpoint>> open_mpi_endpoint(MPI_Comm comm, const mpi_options& options,
                                                    neighbourhood* found = nullptr, mpi_endpoint** far_part = nullptr);

}  // namespace lsched
