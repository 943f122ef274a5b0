// Generates the ops of one rank from an algorithm file.
#pragma once

#include "collectives/algorithm/algorithm.h"
#include "collectives/written/algorithm_text.h"

namespace lsched::written {

/// Returns the number of chunks into which each block of data is cut. Returns the errors of expression::value, and
/// CONSTRAINT if the number is outside 1 to 2^16.
result<std::int64_t> chunks_of(const algorithm_text& how, rank size, rank root);

/// Returns true if all chunks must have equal length, because the length of a scratch vector is given in chunks.
bool has_equal_chunks(const algorithm_text& how);

/// Appends the ops in the order of the statements. Each op waits for earlier ops that access the same memory
/// (ordered_ops.h). If a statement is invalid for this rank, the builder gets an error with line and column.
fragment write(const algorithm_text& how, builder& to, const shape& data, buffer_id input, buffer_id output,
               op_id entry);

}  // namespace lsched::written
