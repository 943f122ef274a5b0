// Programs of MSCCL (XML, as its compiler writes them for NCCL-like executors) as algorithm files.
//
// A program is of one number of ranks. Its thread blocks are not kept: steps are ordered by what they depend on, and
// messages by the channel that they use, so that a schedule may do more at once than the program. A message that
// arrives where something was read before gets memory of its own and is copied, which takes the place of the slots that
// MSCCL's channels have.
#pragma once

#include <string>
#include <string_view>

#include "ops/status.h"

namespace lsched::cli {

/// Whether a text may be such a program.
bool is_msccl_text(std::string_view text);

/// The algorithm file of a program. Failures: ARGUMENT, with the place in the XML or with gpu, thread block and step;
/// UNSUPPORTED for collectives other than allreduce, allgather, reduce_scatter and alltoall.
result<std::string> algorithm_of_msccl(std::string_view text);

}  // namespace lsched::cli
