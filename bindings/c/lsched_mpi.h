/** @file
 * libsched over MPI. This header is optional, and needs <mpi.h> of the MPI with which libsched was built. Programs link
 * libsched_mpi and libsched of the same build (pkg-config libsched_mpi, CMake libsched::mpi). Only libsched_mpi loads
 * the libraries of MPI, some of which install signal handlers when they are loaded. */
#ifndef LSCHED_MPI_H
#define LSCHED_MPI_H

#include <mpi.h>

#include "lsched.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The transport between the ranks of a communicator. */
typedef enum lsched_mpi_transport {
  LSCHED_MPI_AUTO = 0, /* shared memory between ranks that can map it, MPI between the others */
  LSCHED_MPI_ONLY = 1  /* everything through MPI */
} lsched_mpi_transport;

/** The MPI whose <mpi.h> this header was compiled with. MPICH and its derivatives share one binary interface, and Open
 * MPI has another. */
#if defined(OMPI_MAJOR_VERSION)
#define LSCHED_MPI_HEADER "Open MPI"
#elif defined(MPICH_VERSION) || defined(I_MPI_VERSION)
#define LSCHED_MPI_HEADER "MPICH"
#else
#define LSCHED_MPI_HEADER ""
#endif

/** Opens a world of the ranks of `comm`. The communicator is duplicated, and the caller keeps its own. For tests, the
 * environment variable LSCHED_RANKS_PER_NODE=k makes every k consecutive ranks a node. Collective over `comm`.
 *
 * Launchers: mpiexec of the MPI that the program is linked to. If `lsched run` started the process, MPI has one rank.
 * The call then joins the world of `lsched run` as lsched_world_open does, so that one binary serves both. If another
 * launcher started several processes and MPI has one rank, the launcher belongs to another MPI, and the call fails with
 * UNSUPPORTED. LSCHED_WORLD=alone asks for the world of one rank in both cases.
 *
 * Progress thread: if any two ranks communicate through MPI, the thread calls MPI, which needs MPI_THREAD_MULTIPLE.
 * Below that level there is no progress thread. Only callers drive the world, and lsched_world_describe states that. If
 * all ranks share memory, any level suffices.
 *
 * Thread: a thread that may call MPI. The same holds for all collective functions and lsched_world_close. If ranks
 * communicate through MPI below MPI_THREAD_MULTIPLE, it also holds for all functions that start, wait or offer.
 * Blocks: until all ranks of comm have called. The part of libsched takes at most commit_timeout_ns.
 * Memory: close the world before MPI_Finalize. In a world whose ranks communicate through MPI, rounds and
 * lsched_world_close return STATE after MPI_Finalize. MPI itself forbids MPI_Finalize while a thread calls MPI, as the
 * progress thread does for an outstanding round and for a mailbox.
 * Errors: STATE (MPI is not initialised, or is finalised); VERSION (also if libsched and libsched_mpi of a rank are not
 * of one build; the diagnostic names both); UNSUPPORTED (see above, and if the program, libsched_mpi and the running
 * MPI library do not belong to one MPI; the diagnostic names both); ARGUMENT; TRANSPORT; NOMEM. */
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
