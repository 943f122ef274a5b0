#include "bindings/cli/common/mpi_session.h"

#include <mpi.h>

#include <array>

#include "bindings/c/lsched_mpi.h"
#include "bindings/mpi/mpi_library.h"

namespace lsched::cli {
namespace {

/// A session of this process was destroyed without finish(). The main thread's.
bool g_is_unfinished = false;

}  // namespace

result<std::unique_ptr<mpi_session>> mpi_session::open(int threads) {
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  if (is_initialized != 0) return failure{.code = status::state, .text = "MPI is initialised already"};
  constexpr std::array k_levels{MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, k_levels[static_cast<std::size_t>(threads)], &provided) != MPI_SUCCESS)
    return failure{.code = status::transport, .text = "MPI_Init_thread failed"};

  if (const std::string odd = launcher_mismatch(); !odd.empty()) {
    MPI_Finalize();
    return failure{.code = status::transport, .text = odd + " (this one's is " + mpi_library() + ")"};
  }
  return std::unique_ptr<mpi_session>(new mpi_session);
}

mpi_session::~mpi_session() {
  if (is_finished_)
    MPI_Finalize();
  else
    g_is_unfinished = true;
}

void mpi_session::abort_unfinished() {
  if (g_is_unfinished) MPI_Abort(MPI_COMM_WORLD, 1);
}

lsched_status mpi_session::open_runtime(bool mpi_only, const lsched_config* config, lsched_world** runtime,
                                        lsched_diagnostic* diagnostic) {
  const lsched_mpi_transport transport = mpi_only ? LSCHED_MPI_ONLY : LSCHED_MPI_AUTO;
  return lsched_world_open_mpi(MPI_COMM_WORLD, transport, config, runtime, diagnostic);
}

}  // namespace lsched::cli
