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

/// Returns "MPICH" or "Open MPI": the implementation whose binary interface the library of that name has. Empty for a
/// name in neither family.
std::string_view mpi_family(std::string_view library);

/// Returns UNSUPPORTED, with both names, if two of these are of different families: the <mpi.h> of the program, the
/// <mpi.h> of libsched_mpi, and the library that runs. Their handles have different types, so calls between them cannot
/// work.
std::optional<failure> refuse_mixed_mpi(std::string_view program, std::string_view ours, std::string_view library);

}  // namespace lsched
