#include "bindings/mpi/mpi_calls.h"

#include <sched.h>

#include <algorithm>

namespace lsched {

std::optional<failure> validate_world(MPI_Comm comm) {
  if (!is_mpi_running()) return failure{status::state, "MPI is not initialised, or finalised already"};
  if (comm == MPI_COMM_NULL) return failure{status::argument, "MPI_COMM_NULL has no ranks"};
  int is_inter = 0;
  if (MPI_Comm_test_inter(comm, &is_inter) == MPI_SUCCESS && is_inter == 0) return std::nullopt;
  return failure{status::argument, "an intercommunicator is not a world"};
}

int highest_tag_of(MPI_Comm comm, int wished) {
  int* bound = nullptr;
  int is_set = 0;
  if (MPI_Comm_get_attr(comm, MPI_TAG_UB, &bound, &is_set) != MPI_SUCCESS || is_set == 0) return 32767;
  return wished > 0 ? std::min(wished, *bound) : *bound;
}

bool is_mpi_running() {
  int is_initialized = 0;
  int is_finalized = 0;
  return MPI_Initialized(&is_initialized) == MPI_SUCCESS && is_initialized != 0 &&
         MPI_Finalized(&is_finalized) == MPI_SUCCESS && is_finalized == 0;
}

int await_request(MPI_Request& request) {
  for (int is_done = 0;;) {
    const int code = MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || is_done != 0) return code;
    sched_yield();
  }
}

bool combine_all(const void* mine, void* all, int count, MPI_Datatype type, MPI_Op how, MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  return MPI_Iallreduce(mine, all, count, type, how, comm, &request) == MPI_SUCCESS &&
         await_request(request) == MPI_SUCCESS;
}

}  // namespace lsched
