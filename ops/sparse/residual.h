// What remains of a residual when part of it has arrived.
//
// What all kernels of sparse vectors have in common is said in item.h.
#pragma once

#include "ops/sparse/item.h"

namespace lsched {

/// Takes from a residual what was sent of it and is in the result: for each index that the list `sent` and the list
/// `arrived` have in common,
///
///     residual[index] -= value sent        where values are narrower: what rounding cut off stays
///     residual[index] = 0                  where they are not, or that would not be finite
///
/// Answers how many they are. Both lists have the residual's first element for base. Values of `arrived` are not looked
/// at. O(sent_count + arrived_count), without a branch for each item.
using settle_fn = std::size_t (*)(void* residual, const void* sent, std::size_t sent_count, const void* arrived,
                                  std::size_t arrived_count);
settle_fn find_settle(dtype type);

}  // namespace lsched
