// MPI's part of a command's session: start-up, the check of the launcher, and a world made of MPI_COMM_WORLD.
//
// The header mentions no type of MPI, so that the command line can be written without <mpi.h>.
#pragma once

#include <memory>
#include <string>

#include "bindings/c/lsched.h"
#include "ops/status.h"

namespace lsched::cli {

/// MPI from initialisation to finalisation. One per process.
class mpi_session {
 public:
  /// Initialises MPI with a thread level from 0, MPI_THREAD_SINGLE, to 3, MPI_THREAD_MULTIPLE (a library that grants
  /// less is used at its level).
  /// TRANSPORT where the launcher belongs to another MPI than this program: then MPI sees worlds of one.
  static result<std::unique_ptr<mpi_session>> open(int threads);

  mpi_session(const mpi_session&) = delete;
  mpi_session& operator=(const mpi_session&) = delete;

  /// Finalises if finish() was reached. Otherwise leaves MPI as it is: see abort_unfinished.
  ~mpi_session();

  /// Ends all ranks of a world whose session was destroyed without finish(): they may be waiting for this
  /// one. To be called after the failure has been reported; returns only if there is no such session.
  static void abort_unfinished();

  /// A runtime over MPI_COMM_WORLD; `mpi_only` moves everything through MPI. Close it before finish().
  lsched_status open_runtime(bool mpi_only, const lsched_config* config, lsched_world** runtime,
                             lsched_diagnostic* diagnostic);

  /// Declares success: the destructor will finalise.
  void finish() { is_finished_ = true; }

 private:
  mpi_session() = default;
  bool is_finished_ = false;
};

}  // namespace lsched::cli
