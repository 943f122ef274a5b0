// Conversion of MSCCL programs (XML that the MSCCL compiler writes for NCCL-like executors) to algorithm files.
//
// A program is for one number of ranks. Its thread blocks are not kept. Steps are ordered by their dependencies, and
// messages by their channels, so that a schedule may do more at once than the program. A message to memory that the
// rank has read before is received into separate memory and then copied. This replaces the slots of MSCCL's channels.
#pragma once

#include <string>
#include <string_view>

#include "ops/status.h"

namespace lsched::cli {

/// Returns true if the text may be an MSCCL program.
bool is_msccl_text(std::string_view text);

/// Converts a program to an algorithm file. Failures: ARGUMENT, with the place in the XML or with gpu, thread block and
/// step; BOUNDS for a chunk outside its buffer; UNSUPPORTED for collectives other than allreduce, allgather,
/// reduce_scatter and alltoall.
result<std::string> algorithm_of_msccl(std::string_view text);

}  // namespace lsched::cli
