// The sum of two lists, which gTopk computes on the way up its tree.
#pragma once

#include "ops/base.h"

namespace lsched {

/// Writes the sum of two lists (sparse.h) as a list without zeros, and returns its length. If an index is in both
/// lists, the two values are added in the residual's type, with the value of `lower` as the left operand. The sum is
/// rounded to nearest even. Other items are copied. `items` must have capacity for lower_count + upper_count items, and
/// all of this memory may be overwritten. O(lower_count + upper_count), without a branch for each item.
using merge_add_fn = std::size_t (*)(const void* lower, std::size_t lower_count, const void* upper,
                                     std::size_t upper_count, void* items);

/// Returns the function for a floating type and the best SIMD target of this machine.
merge_add_fn find_merge_add(dtype type);

}  // namespace lsched
