// The MPI library that this process runs with.
//
// This header uses no type of MPI, so that the command line can be compiled without <mpi.h>.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ops/status.h"

namespace lsched {

/// Returns the name and version in one line, for example "MPICH 4.0.2". May be called before MPI is initialised.
std::string mpi_library();

/// Returns the family of an MPI library, by the library's name: "MPICH" or "Open MPI". All libraries of a family have
/// the same binary interface. Empty: the library is in neither family.
std::string_view mpi_family(std::string_view library);

/// Returns UNSUPPORTED, with both names, if two of the arguments name MPI libraries of different families. The
/// arguments are the <mpi.h> of the program, the <mpi.h> of libsched_mpi, and the library that runs. MPI handles have
/// different types in the two families, so calls between the families cannot work.
std::optional<failure> refuse_mixed_mpi(std::string_view program, std::string_view ours, std::string_view library);

}  // namespace lsched
