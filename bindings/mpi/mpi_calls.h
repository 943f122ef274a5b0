// Calls of MPI that more than one file makes, and what can be asked about the library itself (mpi_library.h).
#pragma once

#include <mpi.h>

#include <optional>

#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

/// Between MPI_Init and MPI_Finalize.
bool is_mpi_running();

/// Why the communicator is no world, if so.
std::optional<failure> validate_world(MPI_Comm comm);

/// MPI's highest tag, or the wished one if that is lower; 0: whatever MPI allows.
int highest_tag_of(MPI_Comm comm, int wished);

/// TRANSPORT: a call of MPI failed.
failure mpi_failure(const char* call);

// Collectives that wait without taking the core from the ranks they wait for. They answer whether MPI succeeded.
bool reduce_all(const void* own, void* all, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
bool gather_all(rank own, rank* all, MPI_Comm comm);
bool broadcast(void* data, int bytes, MPI_Comm comm, rank root);

/// Makes a rank's failure everybody's: all ranks return the code and the text of the lowest rank that failed, with that
/// rank as the peer; nothing where none did. A barrier, too. Collective.
std::optional<failure> agree(MPI_Comm comm, const std::optional<failure>& own);

}  // namespace lsched
