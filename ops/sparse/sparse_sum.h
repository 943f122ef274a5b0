// Sums of sparse vectors: any number of them by way of a dense region, two of them list by list.
//
// What all kernels of sparse vectors have in common is said in item.h. Sums are of the residual's type, and rounded
// to nearest even when they become items. Those that are zero then do not become any.
#pragma once

#include "ops/sparse/item.h"

namespace lsched {

/// Words of a bitmap of so many elements.
constexpr std::size_t bitmap_words(std::size_t count) { return count / 64 + (count % 64 != 0 ? 1 : 0); }

/// sums[index] += value, and bit index % 64 of touched[index / 64] is set. `sums`, of the residual's type, and the
/// bitmap begin as zeros; both are left so by gather_touched. O(count).
using scatter_add_fn = void (*)(const void* items, std::size_t count, void* sums, std::uint64_t* touched);
scatter_add_fn find_scatter_add(dtype type);

/// Writes what was touched of a region of `region` elements as a list, answers its length, and zeroes sums and bitmap.
/// After scatter_add of lists 0, 1, 2, … each item is 0 + v0 + v1 + v2 + …, added in this order in the residual's type
/// and rounded once. There is room for as many items as are touched. O(touched + region / 64).
using gather_touched_fn = std::size_t (*)(void* sums, std::uint64_t* touched, std::size_t region, void* items);
gather_touched_fn find_gather_touched(dtype type);

/// Writes the sum of two lists as a list, answers its length. Where both have an index, the value of `lower` is the
/// left operand; others are copied. There is room for lower_count + upper_count items, all of which may be overwritten.
/// O(lower_count + upper_count), without a branch for each item.
using merge_add_fn = std::size_t (*)(const void* lower, std::size_t lower_count, const void* upper,
                                     std::size_t upper_count, void* items);
merge_add_fn find_merge_add(dtype type);

}  // namespace lsched
