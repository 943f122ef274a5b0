// The exported function of libsched_mpi.so, which opens a world over MPI.
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
                   std::string("libsched_mpi has version " LSCHED_BUILD ", but libsched has version ") +
                       lsched_private_calls.build + ": install both from the same build"};
  if (world == nullptr || (transport != LSCHED_MPI_AUTO && transport != LSCHED_MPI_ONLY))
    return failure{status::argument, "world is null, or transport is not an lsched_mpi_transport"};
  return lsched_private_calls.read_config(config);
}

/// Returns whether MPI_COMM_WORLD has one rank. This is the case if mpiexec started one process, or if the launcher
/// belongs to another MPI library.
bool is_alone_in_mpi() {
  int size = 0;
  return MPI_Comm_size(MPI_COMM_WORLD, &size) == MPI_SUCCESS && size == 1;
}

/// Returns UNSUPPORTED if a launcher started several processes and each of them is alone in MPI_COMM_WORLD.
std::optional<failure> refuse_other_launcher() {
  const auto found = find_foreign_launch();
  if (!found) return found.error();
  if (!*found) return std::nullopt;
  return failure{status::unsupported, (*found)->text() + ", but MPI_COMM_WORLD of " + mpi_library() +
                                          " has only this process: start the program with mpiexec of that MPI or with "
                                          "`lsched run`, or set LSCHED_WORLD=alone"};
}

/// Returns whether this process is a rank of `lsched run` that is alone in MPI_COMM_WORLD. Returns UNSUPPORTED if the
/// launcher belongs to another MPI library. If `transport` is LSCHED_MPI_ONLY, such a rank gets UNSUPPORTED, because
/// ranks of `lsched run` cannot communicate through MPI.
result<bool> joins_local_world(lsched_mpi_transport transport) {
  const auto is_wanted_alone = wants_world_of_one();
  if (!is_wanted_alone) return is_wanted_alone.error();
  if (*is_wanted_alone || !is_alone_in_mpi()) return false;
  const auto found = find_launch();
  if (!found) return found.error();
  if (!*found) {
    if (const auto why = refuse_other_launcher()) return *why;
    return false;
  }
  if (transport != LSCHED_MPI_ONLY) return true;
  return failure{
      status::unsupported,
      "the transport is LSCHED_MPI_ONLY, but `lsched run` started this process, and its ranks cannot communicate "
      "through MPI: open with LSCHED_MPI_AUTO, or start the program with mpiexec"};
}

lsched_status open_mpi(MPI_Comm comm, lsched_mpi_transport transport, const open_options& options, lsched_world** world,
                       lsched_diagnostic* diagnostic) {
  neighbourhood around;
  mpi_endpoint* far = nullptr;
  auto net = open_mpi_endpoint(comm,
                               {.uses_mpi_alone = transport == LSCHED_MPI_ONLY,
                                .ranks_per_node = options.segment.ranks_per_node,
                                .region_bytes = options.segment.region_bytes,
                                .recorder = options.segment.recorder,
                                .shm = options.segment.shm},
                               &around, &far);
  if (!net) return report(diagnostic, net.error());
  if (!around.may_have_thread) {
    around.is_reduced = true;
    around.description += "; no progress thread, because MPI was initialised below MPI_THREAD_MULTIPLE";
  }
  lsched_world* const opened = lsched_private_calls.open(std::move(*net), options, around);
  runtime& process = opened->process;  // the runtime outlives this world if other worlds share it
  if (!far->close_at_finalize(
          [&process](const std::function<void()>& job) { lsched_private_calls.with_engine(process, job); })) {
    (void)lsched_world_close(opened);
    return report(diagnostic, mpi_failure("MPI_Comm_set_attr"));
  }
  *world = opened;
  if (around.is_reduced) (void)report(diagnostic, {status::ok, around.description});
  return LSCHED_OK;
}

}  // namespace
}  // namespace lsched

using namespace lsched;

// A rank that cannot open a world still takes part in the agreement, because the other ranks wait for this rank in the
// agreement.
extern "C" lsched_status lsched_world_open_mpi_abi(int abi, const char* mpi, MPI_Comm comm,
                                                   lsched_mpi_transport transport, const lsched_config* config,
                                                   lsched_world** world, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (abi != LSCHED_ABI)
      return report(
          diagnostic,
          {status::version,
           "the caller was compiled for another ABI of libsched: recompile with the lsched.h of this library"});
    // This check comes first, because a communicator of one MPI library must not be passed to another.
    if (const auto why = refuse_mixed_mpi(mpi == nullptr ? "" : mpi, LSCHED_MPI_HEADER, mpi_library()))
      return report(diagnostic, *why);
    if (const auto why = validate_world(comm)) return report(diagnostic, *why);
    const auto joins = joins_local_world(transport);
    auto options = read_options(transport, config, world);
    if (!joins) options = joins.error();
    if (joins && *joins && options) return lsched_world_open_abi(abi, config, world, diagnostic);
    auto agreed = agree(comm, options ? std::nullopt : std::optional(options.error()));
    if (!options) return report(diagnostic, options.error());
    if (agreed) {
      agreed->text = "rank " + std::to_string(agreed->peer) + ": " + agreed->text;
      return report(diagnostic, *agreed);
    }
    return open_mpi(comm, transport, *options, world, diagnostic);
  });
}
