// Information about the MPI library of this process.
//
// This header uses no MPI types, so that the lsched command can be compiled without <mpi.h>.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ops/status.h"

namespace lsched {

/// Returns the name and version in one line, for example "MPICH 4.0.2". May be called before MPI is initialised.
std::string mpi_library();

/// Returns the family of the MPI library with the name `library`: "MPICH" or "Open MPI", or an empty text if it is in
/// neither family. All libraries of a family have the same binary interface.
std::string_view mpi_family(std::string_view library);

/// `program` and `ours` name the MPI libraries whose <mpi.h> was used to compile the program and libsched_mpi.
/// `library` is the name of the MPI library in this process. Returns UNSUPPORTED, with both names, if `ours` and one of
/// the others belong to different families. The families use different types for MPI handles, so they cannot be mixed.
/// Names without a family are not refused.
std::optional<failure> refuse_mixed_mpi(std::string_view program, std::string_view ours, std::string_view library);

}  // namespace lsched
