// Opening a runtime over MPI.
#include "bindings/c/lsched_mpi.h"

#include "bindings/c/runtime.h"
#include "bindings/environment.h"
#include "bindings/mpi/mpi_library.h"
#include "bindings/mpi/mpi_world.h"

namespace lsched {
namespace {

lsched_status open_mpi(MPI_Comm comm, lsched_mpi_transport transport, const runtime_options& options,
                       lsched_runtime** runtime, lsched_diagnostic* diagnostic) {
  int is_up = 0;
  int is_down = 0;
  MPI_Initialized(&is_up);
  MPI_Finalized(&is_down);
  if (is_up == 0 || is_down != 0) return report(diagnostic, {status::state, "MPI is not initialised, or finalised already"});
  const auto ranks_per_node = number_in_environment("LSCHED_RANKS_PER_NODE", 1);
  if (!ranks_per_node) return report(diagnostic, ranks_per_node.error());
  mpi_options wanted;
  wanted.transport = transport == LSCHED_MPI_ONLY ? mpi_transport::mpi_only : mpi_transport::automatic;
  wanted.ranks_per_node = ranks_per_node->value_or(0);
  wanted.region_bytes = options.region_bytes;
  wanted.shm = options.shm;
  mpi_info info;
  auto net = open_mpi_endpoint(comm, wanted, &info);
  if (!net) return report(diagnostic, net.error());
  if (!info.allows_auxiliary_thread) info.text += "; no progress thread below MPI_THREAD_MULTIPLE";
  *runtime = new lsched_runtime(std::move(*net), options,
                                neighbourhood{static_cast<unsigned>(info.node_ranks), info.node_cores, info.ranks_per_core, info.nodes},
                                info.allows_auxiliary_thread, info.text);
  if (const std::string odd = launcher_mismatch(); !odd.empty()) (void)report(diagnostic, {status::ok, odd});
  return LSCHED_OK;
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" lsched_status lsched_runtime_open_mpi_abi(int abi, MPI_Comm comm, lsched_mpi_transport transport,
                                                     const lsched_config* config, lsched_runtime** runtime,
                                                     lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (abi != LSCHED_ABI) return report(diagnostic, {status::version, "the caller was compiled for another ABI of libsched"});
    if (runtime == nullptr || (transport != LSCHED_MPI_AUTO && transport != LSCHED_MPI_ONLY))
      return report(diagnostic, {status::argument, "runtime is null, or transport is not an lsched_mpi_transport"});
    const auto options = read_config(config);
    if (!options) return report(diagnostic, options.error());
    return open_mpi(comm, transport, *options, runtime, diagnostic);
  });
}
