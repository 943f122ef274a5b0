/** @file
 * libsched over MPI: opt-in, needs <mpi.h> of the MPI that libsched was built with. Programs link libsched_mpi beside
 * libsched (pkg-config libsched_mpi, CMake libsched::mpi), which are of one build. MPI's libraries come with
 * libsched_mpi alone; some install signal handlers when they are loaded. */
#ifndef LSCHED_MPI_H
#define LSCHED_MPI_H

#include <mpi.h>

#include "lsched.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How the ranks of a communicator reach each other. */
typedef enum lsched_mpi_transport {
  LSCHED_MPI_AUTO = 0, /* shared memory between ranks that can map it, MPI between the others */
  LSCHED_MPI_ONLY = 1  /* everything through MPI */
} lsched_mpi_transport;

/** The MPI whose <mpi.h> this file was compiled with. MPICH and its derivatives have one binary interface, Open MPI has
 * another. */
#if defined(OMPI_MAJOR_VERSION)
#define LSCHED_MPI_HEADER "Open MPI"
#elif defined(MPICH_VERSION) || defined(I_MPI_VERSION)
#define LSCHED_MPI_HEADER "MPICH"
#else
#define LSCHED_MPI_HEADER ""
#endif

/** A world made of the ranks of `comm`, which is duplicated and stays the caller's. The environment variable
 * LSCHED_RANKS_PER_NODE=k makes every k consecutive ranks a node of their own, for tests.  Collective over `comm`.
 *
 * Launchers: mpiexec of the MPI that the program is linked to. If `lsched run` started the process, and MPI therefore
 * has one rank, the call joins the world of `lsched run` as lsched_world_open does, so that one binary serves both. If
 * another launcher started several processes and MPI has one rank, the launcher belongs to another MPI, and the call
 * fails with UNSUPPORTED. LSCHED_WORLD=alone asks for the world of one rank in both cases.
 *
 * Progress thread: where any two ranks talk through MPI it has to call MPI, which needs MPI_THREAD_MULTIPLE. Below that
 * level there is none, the world is driven by callers only, and lsched_world_describe says so. Where all ranks
 * share memory, any level will do.
 *
 * Thread: one that may call MPI, here and for every collective function and lsched_world_close; below
 * MPI_THREAD_MULTIPLE, where ranks talk through MPI, for every function that starts, waits or offers, too.  Blocks:
 * until all ranks of comm have come, at most commit_timeout_ns for the part that is ours.  Memory: close the world
 * before MPI_Finalize. In a world whose ranks talk through MPI, rounds and lsched_world_close return STATE after it.
 * MPI itself forbids MPI_Finalize while a thread calls MPI, as the progress thread does for an outstanding round and
 * for a mailbox.
 * Errors: STATE (MPI is not initialised, or finalised), VERSION (also where some rank's libsched and libsched_mpi are
 * not of one build; the diagnostic names both), UNSUPPORTED (above, and if the program, libsched_mpi and the MPI
 * library that runs are not of one MPI; the diagnostic names both), ARGUMENT, TRANSPORT, NOMEM. */
#define lsched_world_open_mpi(comm, transport, config, world, diagnostic) \
  lsched_world_open_mpi_abi(LSCHED_ABI, LSCHED_MPI_HEADER, (comm), (transport), (config), (world), (diagnostic))
/** The function behind lsched_world_open_mpi, with the LSCHED_ABI and the MPI of the caller's headers. */
LSCHED_CHECKED lsched_status lsched_world_open_mpi_abi(int abi, const char* mpi, MPI_Comm comm,
                                                       lsched_mpi_transport transport, const lsched_config* config,
                                                       lsched_world** world, lsched_diagnostic* diagnostic);

#ifdef __cplusplus
}
#endif

#endif
