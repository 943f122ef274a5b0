// Calls of MPI that more than one file makes. mpi_calls.cc also implements mpi_library.h.
#pragma once

#include <mpi.h>

#include <optional>

#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

/// Returns true if MPI is initialised and not finalised.
bool is_mpi_running();

/// Returns an error if the communicator cannot be a world.
std::optional<failure> validate_world(MPI_Comm comm);

/// Returns the highest tag that MPI allows, or `wished` if `wished` is lower and not 0.
int highest_tag_of(MPI_Comm comm, int wished);

/// Returns the failure of an MPI call, with status TRANSPORT.
failure mpi_failure(const char* call);

// Collective calls that yield the core while they wait, because the awaited ranks may need the core. They return true
// on success.
bool reduce_all(const void* own, void* all, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
bool gather_all(rank own, rank* all, MPI_Comm comm);
bool broadcast(void* data, int bytes, MPI_Comm comm, rank root);

/// Agrees on a failure, and acts as a barrier. Collective. If any rank has failed, all ranks return the code and the
/// text of the lowest such rank, with that rank as `peer`. If no rank has failed, returns nothing.
std::optional<failure> agree(MPI_Comm comm, const std::optional<failure>& own);

}  // namespace lsched
