// From an algorithm file to the ops of one rank.
#pragma once

#include "collectives/algorithm/algorithm.h"
#include "collectives/written/algorithm_text.h"

namespace lsched::written {

/// So many chunks each block of data is cut into. Failures: as expression::value, and CONSTRAINT outside 1 to 2^16.
result<std::int64_t> chunks_of(const algorithm_text& how, rank size, rank root);

/// Whether a scratch vector is so many chunks long: then all chunks are as long as each other.
bool has_equal_chunks(const algorithm_text& how);

/// Appends the ops in the order of the text's statements; each waits for what the memory it touches demands
/// (ordered_ops.h). What the text says wrongly for this rank is refused by the builder, with line and column.
fragment write(const algorithm_text& how, builder& to, const shape& data, buffer_id input, buffer_id output,
               op_id entry);

}  // namespace lsched::written
