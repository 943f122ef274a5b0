/** @file
 * Worlds whose ranks are the processes of an MPI job. This header is optional, and needs <mpi.h> of the MPI library
 * with which libsched was built. Programs link libsched_mpi and libsched of the same build (pkg-config libsched_mpi,
 * CMake libsched::mpi). Only libsched_mpi loads the libraries of MPI, some of which install signal handlers when they
 * are loaded. */
#ifndef LSCHED_MPI_H
#define LSCHED_MPI_H

#include <mpi.h>

#include "lsched.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The transport between the ranks of a communicator. */
typedef enum lsched_mpi_transport {
  LSCHED_MPI_AUTO = 0, /* shared memory between ranks that can map the same memory, MPI between all other ranks */
  LSCHED_MPI_ONLY = 1  /* MPI between all ranks */
} lsched_mpi_transport;

/** The MPI library whose <mpi.h> was included before this header. MPICH and its derivatives share one binary interface,
 * and Open MPI has another interface. */
#if defined(OMPI_MAJOR_VERSION)
#define LSCHED_MPI_HEADER "Open MPI"
#elif defined(MPICH_VERSION) || defined(I_MPI_VERSION)
#define LSCHED_MPI_HEADER "MPICH"
#else
#define LSCHED_MPI_HEADER ""
#endif

/** Opens a world of the ranks of `comm`. The library uses a duplicate of `comm`, so the caller may continue to use
 * `comm`, and may free it. For tests, the environment variable LSCHED_RANKS_PER_NODE=k makes every k consecutive ranks
 * a node. Collective over `comm`.
 *
 * Launchers: start the program by mpiexec of the MPI library that the program is linked to. If `lsched run` started the
 * process, MPI has one rank. The call then joins the world of `lsched run` as lsched_world_open does, so that one
 * binary works under both launchers. If another launcher started several processes, but MPI has one rank, the launcher
 * belongs to another MPI library, and the call fails with UNSUPPORTED. In both cases LSCHED_WORLD=alone asks for a
 * world of one rank instead.
 *
 * Progress thread: if any two ranks communicate through MPI, the thread calls MPI, and these calls need
 * MPI_THREAD_MULTIPLE. With a lower thread level there is no progress thread: only threads inside lsched calls drive
 * the world, and lsched_world_describe reports this. If all ranks share memory, any level suffices.
 *
 * Thread: only threads that may call MPI. This also applies to all collective functions and lsched_world_close. If
 * ranks communicate through MPI with a level below MPI_THREAD_MULTIPLE, the restriction also applies to all functions
 * that start, wait or offer.
 * Blocks: until all ranks of comm have called. After that, at most commit_timeout_ns.
 * Memory: close the world before MPI_Finalize. In a world whose ranks communicate through MPI, rounds and
 * lsched_world_close return STATE after MPI_Finalize. MPI forbids MPI_Finalize while another thread calls MPI. The
 * progress thread calls MPI while a round is outstanding or a mailbox exists.
 * Errors: STATE (MPI is not initialised, or is finalised); VERSION (also if libsched and libsched_mpi of a rank are
 * from different builds; the diagnostic names both builds); UNSUPPORTED (see above; also if the program, libsched_mpi
 * and the running MPI library are not of the same MPI, and the diagnostic names the two that differ); ARGUMENT;
 * TRANSPORT; NOMEM. */
#define lsched_world_open_mpi(comm, transport, config, world, diagnostic) \
  lsched_world_open_mpi_abi(LSCHED_ABI, LSCHED_MPI_HEADER, (comm), (transport), (config), (world), (diagnostic))
/** The function behind lsched_world_open_mpi, with the LSCHED_ABI and the LSCHED_MPI_HEADER of the caller's headers. */
LSCHED_CHECKED lsched_status lsched_world_open_mpi_abi(int abi, const char* mpi, MPI_Comm comm,
                                                       lsched_mpi_transport transport, const lsched_config* config,
                                                       lsched_world** world, lsched_diagnostic* diagnostic);

#ifdef __cplusplus
}
#endif

#endif
