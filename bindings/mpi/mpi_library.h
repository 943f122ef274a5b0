// The MPI that this process runs with.
//
// The header mentions no type of MPI, so that the command line can be written without <mpi.h>.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ops/status.h"

namespace lsched {

/// "MPICH 4.0.2" and the like, in one line. May be called before MPI is initialised.
std::string mpi_library();

/// "MPICH" or "Open MPI": the implementation whose binary interface the library of that name has. Empty for a name that
/// belongs to neither family.
std::string_view mpi_family(std::string_view library);

/// UNSUPPORTED, with both names, if two of these are of different families: the <mpi.h> of the program, the <mpi.h> of
/// libsched_mpi, and the library that runs. Their handles have different types, so that no call between them is right.
std::optional<failure> refuse_mixed_mpi(std::string_view program, std::string_view ours, std::string_view library);

}  // namespace lsched
