// Conversion of MSCCL programs (XML that the MSCCL compiler writes for NCCL-like executors) to algorithm files.
//
// A program is for one number of ranks. The conversion keeps the dependencies of steps and the order of messages in
// each channel. The conversion does not keep the thread blocks. So a schedule can execute more steps concurrently than
// the program. If an earlier step reads the target memory of a message, the message is received into separate memory
// and then copied. (MSCCL's channels have buffer slots for such messages.)
#pragma once

#include <string>
#include <string_view>

#include "ops/status.h"

namespace lsched::cli {

/// Returns true if the text looks like an MSCCL program.
bool is_msccl_text(std::string_view text);

/// Converts a program to an algorithm file. Fails with ARGUMENT if the program is invalid. The error text has the
/// position in the XML, or names the gpu, the thread block and the step. Fails with BOUNDS if a chunk is outside its
/// buffer. Fails with UNSUPPORTED unless the collective is allreduce, allgather, reduce_scatter or alltoall.
result<std::string> algorithm_of_msccl(std::string_view text);

}  // namespace lsched::cli
