// The k largest elements of a vector, exactly, at about the cost of looking at each once.
//
// What all kernels of sparse vectors have in common, and the order by magnitude, are in item.h.
#pragma once

#include "ops/sparse/select.h"

namespace lsched {

/// What keep_largest left.
struct kept_items {
  std::size_t count = 0;
  std::uint64_t magnitude = 0;  ///< the least that is kept, as bits of the items' type; 0 if there is none
};

/// Keeps the first min(k, count) items of the order by magnitude, in place and by index. The others are lost.
///
/// O(count): a pass for the extremes, one for every 11 bits in which these differ, one to keep.
using keep_largest_fn = kept_items (*)(void* items, std::size_t count, std::size_t k);
keep_largest_fn find_keep_largest(dtype type);

/// Where one round of top_k leaves a hint for the next one, over the same vector. A hint costs or saves time, and
/// changes no result.
struct top_k_hint {
  std::uint64_t least = 0;  ///< magnitude in the items' type to look from, somewhat below the k-th; 0: none yet
};

/// What top_k found.
struct top_k_list {
  std::size_t count = 0;  ///< min(k, elements that are not zero when rounded), without NaN if these are ignored
  std::uint64_t magnitude =
      0;                   ///< of the last in the order by magnitude, as bits of the items' type; 0 if there is none
  double sum = 0;          ///< as in `select_result`
  bool has_nan = false;    ///< as in `select_result`, whatever the policy
  std::size_t passes = 0;  ///< over the residual: 1 if the hint was good
};

/// Accumulates once, then writes to `items`, by index, the first k elements of the order by magnitude that are not
/// zero: of values rounded to the items' type, equal ones by index. `items` also is the space to work in: room is at
/// least min(k, count), and with twice to four times k a single pass will mostly do. All of it may be overwritten.
///
/// The pass looks from the hint, which is 0.85 times the k-th magnitude of the round before. If that gives too many for
/// the room or too few, histograms of magnitudes, 11 bits at a time, narrow the place of the k-th until all from there
/// on fit: a pass each, one mostly, 3 at most for f32 (2 for 16 bits, 6 for f64), and one more to select.
using top_k_fn = top_k_list (*)(const accumulation& from, std::size_t k, nan_policy nans, void* items, std::size_t room,
                                top_k_hint& hint);
top_k_fn find_top_k(dtype type);

}  // namespace lsched
