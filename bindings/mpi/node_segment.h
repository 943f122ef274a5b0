// One shared segment for the processes of a communicator.
#pragma once

#include <mpi.h>

#include <memory>

#include "libsched/transport/shm/shm_endpoint.h"

namespace lsched {

/// Makes the ranks of `node` share a segment with `region_bytes` per rank (0: the machine's memory size) and
/// takes this rank's place in it. Collective; all ranks return the same status, and on failure the same text,
/// with the peer who failed first as a rank of `node`. The communicator must return errors.
result<std::unique_ptr<shm_endpoint>> share_segment(MPI_Comm node, std::uint64_t region_bytes,
                                                    const shm_options& options);

}  // namespace lsched
