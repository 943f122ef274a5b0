// Adding a gradient to a residual, and picking out what is large enough to be sent: one pass over both.
//
// What all kernels of sparse vectors have in common is said in item.h.
#pragma once

#include "ops/sparse/item.h"

namespace lsched {

/// A residual, and what is to be added to it:
///
///     residual[i] = residual[i] + scale * gradient[i]
///
/// computed in the residual's type, to which scale is rounded first; product and sum are rounded each, and a scale of 1
/// is a mere sum. Without a gradient (nullptr) the residual stays as it is.
struct accumulation {
  void* residual = nullptr;
  const void* gradient = nullptr;  ///< of the items' type
  double scale = 1;
  std::size_t count = 0;          ///< elements
  std::uint32_t first_index = 0;  ///< of element 0, as items name it; first_index + count is at most 2^32
};

/// What a pass found.
struct select_result {
  std::size_t stored = 0;   ///< items written
  std::size_t counted = 0;  ///< elements within the range; those beyond `stored` had no room
  double sum = 0;           ///< of the magnitudes of all finite elements, whether selected or not
  bool has_nan = false;     ///< whether any element is NaN
};

/// Accumulates, then appends to `items`, by index, every element whose magnitude lies within `range`, its value rounded
/// to nearest even. Only the first `room` of them are stored, and nothing is written behind these. What would round to
/// zero is never selected, whatever the range.
///
/// Elements are added up in blocks of k_selection_block, and the sums of these from first to last in f64; so `sum`
/// depends on nothing but the elements. In a block of f32 it is done in f32, at most 32 after each other, which leaves
/// a relative error of 2^-19; a block that overflows, or is not finite, is added again in f64, without what is not
/// finite. Where f64 overflows, the sum is infinity.
///
/// O(count): at memory's speed where few are selected.
using accumulate_select_fn = select_result (*)(const accumulation& from, magnitude_range range, void* items,
                                               std::size_t room);
accumulate_select_fn find_accumulate_select(dtype type);

inline constexpr std::size_t k_selection_block = 1024;  ///< elements

/// The same without a gradient, of a residual that is only read.
using select_fn = select_result (*)(const void* residual, std::size_t count, std::uint32_t first_index,
                                    magnitude_range range, void* items, std::size_t room);
select_fn find_select(dtype type);

}  // namespace lsched
