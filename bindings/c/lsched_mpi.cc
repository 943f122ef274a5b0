// Opening a world over MPI.
#include "bindings/c/lsched_mpi.h"

#include "bindings/c/world.h"
#include "bindings/environment.h"
#include "bindings/mpi/mpi_library.h"
#include "bindings/mpi/mpi_world.h"

namespace lsched {
namespace {

bool is_mpi_up() {
  int is_up = 0;
  int is_down = 0;
  MPI_Initialized(&is_up);
  MPI_Finalized(&is_down);
  return is_up != 0 && is_down == 0;
}

/// What this rank wants. Fails for reasons of its own.
struct wish {
  open_options options;
  mpi_options mpi;
};

result<wish> read_wish(lsched_mpi_transport transport, const lsched_config* config, lsched_world** world) {
  if (world == nullptr || (transport != LSCHED_MPI_AUTO && transport != LSCHED_MPI_ONLY))
    return failure{status::argument, "world is null, or transport is not an lsched_mpi_transport"};
  auto options = read_config(config);
  if (!options) return options.error();
  mpi_options wanted;
  wanted.transport = transport == LSCHED_MPI_ONLY ? mpi_transport::mpi_only : mpi_transport::automatic;
  wanted.ranks_per_node = options->ranks_per_node;
  wanted.region_bytes = options->region_bytes;
  wanted.shm = options->shm;
  return wish{std::move(*options), wanted};
}

lsched_status open_mpi(MPI_Comm comm, const wish& mine, lsched_world** world, lsched_diagnostic* diagnostic) {
  mpi_info info;
  auto net = open_mpi_endpoint(comm, mine.mpi, &info);
  if (!net) return report(diagnostic, net.error());
  if (!info.allows_auxiliary_thread) info.text += "; no progress thread below MPI_THREAD_MULTIPLE";
  const machine_share share{.ranks = static_cast<unsigned>(info.node_ranks),
                            .cores = info.node_cores,
                            .may_have_thread = info.allows_auxiliary_thread,
                            .remark = info.text};
  *world = new lsched_world(std::move(*net), mine.options, {share, info.ranks_per_core, info.nodes});
  if (const std::string odd = launcher_mismatch(); !odd.empty()) (void)report(diagnostic, {status::ok, odd});
  return LSCHED_OK;
}

}  // namespace
}  // namespace lsched

using namespace lsched;

// A rank that cannot open a world still takes part, or the others would wait for it.
extern "C" lsched_status lsched_world_open_mpi_abi(int abi, MPI_Comm comm, lsched_mpi_transport transport,
                                                   const lsched_config* config, lsched_world** world,
                                                   lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (abi != LSCHED_ABI)
      return report(diagnostic, {status::version, "the caller was compiled for another ABI of libsched"});
    if (!is_mpi_up()) return report(diagnostic, {status::state, "MPI is not initialised, or finalised already"});
    const auto mine = read_wish(transport, config, world);
    const auto unready = find_unready(comm, static_cast<bool>(mine));
    if (!mine) return report(diagnostic, mine.error());
    if (!unready) return report(diagnostic, unready.error());
    if (*unready != k_no_rank)
      return report(
          diagnostic,
          {status::argument, "rank " + std::to_string(*unready) + " cannot open a world, for a reason that it is told",
           *unready});
    return open_mpi(comm, *mine, world, diagnostic);
  });
}
