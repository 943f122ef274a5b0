// Calls of MPI that more than one file makes.
#pragma once

#include <mpi.h>

#include <optional>

#include "ops/status.h"

namespace lsched {

/// Between MPI_Init and MPI_Finalize.
bool is_mpi_running();

/// Why the communicator is no world, if so.
std::optional<failure> validate_world(MPI_Comm comm);

/// MPI's highest tag, or the wished one if that is lower; 0: whatever MPI allows.
int highest_tag_of(MPI_Comm comm, int wished);

/// Waits for an MPI request without taking the core from the ranks it waits for. Answers MPI's code.
int await_request(MPI_Request& request);

/// MPI_Allreduce that waits likewise. Answers whether MPI succeeded.
bool combine_all(const void* mine, void* all, int count, MPI_Datatype type, MPI_Op how, MPI_Comm comm);

}  // namespace lsched
