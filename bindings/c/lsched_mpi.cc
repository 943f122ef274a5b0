// Opening a world over MPI: what libsched_mpi.so shows.
#include "bindings/c/lsched_mpi.h"

#include <cstring>

#include "bindings/c/build_id.h"
#include "bindings/c/private_calls.h"
#include "bindings/foreign_launcher.h"
#include "bindings/mpi/mpi_calls.h"
#include "bindings/mpi/mpi_library.h"
#include "bindings/mpi/mpi_world.h"

namespace lsched {
namespace {

result<open_options> read_options(lsched_mpi_transport transport, const lsched_config* config, lsched_world** world) {
  if (std::strcmp(lsched_private_calls.build, LSCHED_BUILD) != 0)
    return failure{status::version,
                   std::string("libsched_mpi is of " LSCHED_BUILD ", libsched of ") + lsched_private_calls.build};
  if (world == nullptr || (transport != LSCHED_MPI_AUTO && transport != LSCHED_MPI_ONLY))
    return failure{status::argument, "world is null, or transport is not an lsched_mpi_transport"};
  return lsched_private_calls.read_config(config);
}

/// A program of MPI that `lsched run` has started: MPI makes a world of each rank. LSCHED_WORLD=alone wants that.
std::optional<failure> refuse_worlds_of_one() {
  const auto found = find_launch();
  const auto is_alone = wants_world_of_one();
  int size = 0;
  if (!found || !is_alone || !*found || (*found)->size < 2 || *is_alone) return std::nullopt;
  if (MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS || size > 1) return std::nullopt;
  return failure{status::unsupported,
                 "this process is rank " + std::to_string((*found)->self) + " of " + std::to_string((*found)->size) +
                     " that `lsched run` has started, and alone in MPI_COMM_WORLD: open the world with "
                     "lsched_world_open, or start it with mpiexec"};
}

lsched_status open_mpi(MPI_Comm comm, lsched_mpi_transport transport, const open_options& options, lsched_world** world,
                       lsched_diagnostic* diagnostic) {
  neighbourhood around;
  auto net = open_mpi_endpoint(comm,
                               {.uses_mpi_alone = transport == LSCHED_MPI_ONLY,
                                .ranks_per_node = options.ranks_per_node,
                                .region_bytes = options.region_bytes,
                                .recorder = options.recorder,
                                .shm = options.shm},
                               &around);
  if (!net) return report(diagnostic, net.error());
  if (!around.may_have_thread) {
    around.is_reduced = true;
    around.remark += "; no progress thread below MPI_THREAD_MULTIPLE";
  }
  *world = lsched_private_calls.open(std::move(*net), options, around);
  std::string remark = launcher_mismatch();
  if (around.is_reduced) remark += (remark.empty() ? "" : "; ") + around.remark;
  if (!remark.empty()) (void)report(diagnostic, {status::ok, remark});
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
    if (const auto why = validate_world(comm)) return report(diagnostic, *why);
    if (const auto why = refuse_worlds_of_one()) return report(diagnostic, *why);
    const auto options = read_options(transport, config, world);
    auto agreed = agree(comm, options ? std::nullopt : std::optional(options.error()));
    if (!options) return report(diagnostic, options.error());
    if (agreed) {
      agreed->text = "rank " + std::to_string(agreed->peer) + ": " + agreed->text;
      return report(diagnostic, *agreed);
    }
    return open_mpi(comm, transport, *options, world, diagnostic);
  });
}
