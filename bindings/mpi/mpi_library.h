// Which MPI this is, and whether the launcher is its own.
//
// The header mentions no type of MPI, so that the command line can be written without <mpi.h>.
#pragma once

#include <string>

namespace lsched {

/// "MPICH 4.0.2" and the like, in one line. May be asked before MPI is initialised.
std::string mpi_library();

/// One line of text if the environment says that a launcher started another number of ranks than
/// MPI_COMM_WORLD has: the program was linked with one MPI and started by another's mpiexec. Empty otherwise.
std::string launcher_mismatch();

}  // namespace lsched
