// Sparse vectors in coordinate format, the order of elements by magnitude, and kernels for sparse vectors.
//
// An *item* is a u32 index, followed by a value of type f16, bf16, f32 or f64. An item is 6, 6, 8 or 12 bytes long and
// little-endian. It has no padding and may begin at any address. A *list* is an array of items, ascending by index,
// without duplicate indices and without zeros of either sign. Indices are relative to a base element that the user of
// the list stores elsewhere, so a vector can have more than 2^32 elements. A prefix of a list is a valid list. If lists
// cover consecutive regions of a vector, their concatenation in the order of the regions is a valid list.
//
// The *magnitude* of a number is its bits without the sign, as an unsigned integer (ops/magnitude.h). In the *order by
// magnitude*, items with greater magnitudes come first. Items with equal magnitudes are ordered by ascending index. The
// order is total, and the same on all ranks.
//
// The *residual* of a vector is the part of its values that has not been sent yet. The residual has the type in which
// arithmetic is done: f64 for f64, and f32 for the other types.
//
// All kernels for sparse vectors follow these rules. Kernels do not allocate memory. Any number of threads may call a
// kernel at once. In the default floating-point environment, equal input bits give equal output bits at every SIMD
// level. A computed NaN is always the positive quiet NaN without payload. A value that is copied without arithmetic
// keeps its bits. A pointer to zero elements may be null. Pointers to vectors need the alignment of an element,
// pointers to items need none. Operands must be disjoint unless stated otherwise. Kernels do not check that lists are
// valid.
#pragma once

#include <bit>
#include <cstring>

#include "ops/magnitude.h"

namespace lsched {

// ---- items

/// Returns the size in bytes of an item whose value has type `type`.
constexpr std::size_t item_size(dtype type) { return sizeof(std::uint32_t) + size_of(type); }

/// Returns the residual's type for a vector of `type`.
constexpr dtype residual_of(dtype type) { return type == dtype::f64 ? dtype::f64 : dtype::f32; }

/// Treatment of NaNs. With `propagate`, NaNs come before all numbers in the order by magnitude, so NaNs are sent to all
/// ranks. With `ignore`, NaNs are skipped like zeros and stay in the residual. Kernels treat `error` as `propagate`.
/// With `error`, the round also fails if its result contains a NaN (result_check).
enum class nan_policy : std::uint8_t { propagate, ignore, error };

/// A closed range of magnitudes: from `least` to `most`, as bit patterns of the residual's type. The range is empty if
/// `least` exceeds `most`.
struct magnitude_range {
  std::uint64_t least = 1;
  std::uint64_t most = ~std::uint64_t{0};
};

/// Converts the value to the residual's type, and returns the bits of the converted value without the sign.
constexpr std::uint64_t magnitude_in(dtype residual, double value) {
  if (residual == dtype::f32) return std::bit_cast<std::uint32_t>(static_cast<float>(value)) & 0x7FFFFFFFU;
  return std::bit_cast<std::uint64_t>(value) & ~(std::uint64_t{1} << 63);
}

inline std::uint64_t magnitude_of_item(dtype type, const std::byte* item) {
  return magnitude_at(type, item + sizeof(std::uint32_t));
}

inline std::uint32_t index_at(dtype type, const std::byte* items, std::uint64_t i) {
  std::uint32_t index = 0;
  std::memcpy(&index, items + i * item_size(type), sizeof index);
  return index;
}

/// Returns the number of 64-bit words of a bitmap with one bit for each of `count` elements.
constexpr std::size_t bitmap_words(std::size_t count) { return count / 64 + (count % 64 != 0 ? 1 : 0); }

// ---- operands and results of kernels

/// A residual, and the gradient to add:
///
///     residual[i] = residual[i] + scale * gradient[i]
///
/// The arithmetic is in the residual's type. Three values are rounded to that type: `scale`, the product and the sum.
/// If `scale` is 1, only the sum is rounded. If `gradient` is nullptr, the residual is only read.
struct accumulation {
  void* residual = nullptr;
  const void* gradient = nullptr;  ///< elements of the values' type
  double scale = 1;
  std::size_t count = 0;          ///< elements
  std::uint32_t first_index = 0;  ///< index of element 0 in written items; first_index + count is at most 2^32
};

/// Result of accumulate_select.
struct select_result {
  std::size_t stored = 0;   ///< items written
  std::size_t counted = 0;  ///< elements within the range, including elements beyond the capacity `room`
};

/// Result of keep_largest.
struct kept_items {
  std::size_t count = 0;
  std::uint64_t magnitude = 0;  ///< smallest kept magnitude, as bits of the values' type; 0 if no item is kept
};

/// A hint from one call of top_k to the next call for the same vector. The hint affects the time, but not the result.
struct top_k_hint {
  std::uint64_t least = 0;  ///< magnitude at which the search starts, as bits of the values' type; 0: no hint
};

/// Result of top_k.
struct top_k_list {
  std::size_t count = 0;        ///< min(k, number of elements that do not round to zero), ignored NaNs not counted
  std::uint64_t magnitude = 0;  ///< smallest magnitude of the items, as bits of the values' type; 0: no items
  std::size_t passes = 0;       ///< number of passes over the residual; 1 if the hint was good
};

/// The bins of a histogram of magnitudes. All bins have the width 1 << shift, and bin b begins at the magnitude low +
/// (b << shift). The last bin also contains all larger magnitudes. Magnitudes below `low` are not counted. Magnitudes
/// are bit patterns of the values' type. `shift` must be below 64.
struct magnitude_bins {
  std::uint64_t low = 0;
  unsigned shift = 0;
  std::size_t count = 0;  ///< number of bins, at least 1
};

// ---- kernels

/// The kernels for items whose values are of one floating type.
struct sparse_kernels {
  /// Adds the gradient to the residual as described by `from`. Then writes every element whose magnitude lies within
  /// `range` to `items`, ascending by index. Values are rounded to nearest even. `room` is the capacity of `items`.
  /// Items beyond the capacity are counted, but not written. An element that rounds to zero is never selected.
  /// O(count), at memory bandwidth if few elements are selected.
  select_result (*accumulate_select)(const accumulation& from, magnitude_range range, void* items, std::size_t room);

  /// Adds the gradient to the residual as described by `from`. Then writes the k elements that come first in the order
  /// by magnitude to `items`, ascending by index. Values are rounded to the items' type before they are compared, and
  /// zeros are left out. The array `items` is also the workspace: all of it may be overwritten. `room`, the capacity of
  /// `items`, must be at least min(k, count).
  ///
  /// The first pass selects all elements whose magnitude is at least the hint. The hint is usually 0.85 times the k-th
  /// magnitude of the previous call. If that call found fewer than k elements, the hint lets the first pass select all
  /// elements that are not zero. If `room` is two to four times k, no other pass is usually needed.
  ///
  /// Histograms are needed in three cases: there is no hint, the first pass finds more than `room` elements, or it
  /// finds fewer than k and has left out smaller elements. Histograms narrow down the k-th magnitude by 11 bits at a
  /// time, until all elements that can belong to the result fit into `items`. Each histogram is a pass over the
  /// residual. Usually one histogram is enough. At most 3 histograms are needed for f32, 2 for f16 and bf16, and 6 for
  /// f64. One more pass then selects the elements.
  top_k_list (*top_k)(const accumulation& from, std::size_t k, nan_policy nans, void* items, std::size_t room,
                      top_k_hint& hint);

  /// Keeps the first min(k, count) items in the order by magnitude, and removes all others, in place. The kept items
  /// stay ascending by index. O(count). One pass finds the smallest and the largest magnitude. Every 11 bits of the
  /// difference of these two magnitudes (below 1024 items: every 6 bits) need one more pass. The last removes items.
  kept_items (*keep_largest)(void* items, std::size_t count, std::size_t k);

  /// Adds the number of items in bin b to bins[b], for every b < where.count. O(count).
  void (*count_magnitudes)(const void* items, std::size_t count, const magnitude_bins& where, std::uint64_t* bins);

  /// Copies items to `output`, ascending by index: all items with greater magnitudes than `magnitude` (bits of the
  /// values' type), and the first `ties` items with exactly this magnitude. Returns the number of copied items. Nothing
  /// is written behind the last item. `output` must be identical with `items`, or disjoint from `items`. O(count).
  std::size_t (*filter_items)(const void* items, std::size_t count, std::uint64_t magnitude, std::size_t ties,
                              void* output);

  /// Sets dense[index] = value / divisor for each item, rounded like the result of find_divide (ops/kernel.h). Other
  /// elements of `dense` are unchanged. O(count).
  void (*scatter)(const void* items, std::size_t count, std::uint64_t divisor, void* dense);

  /// For each item, adds the value to sums[index] and sets bit index % 64 of touched[index / 64]. `sums` has the
  /// residual's type. Both arrays must be zero before the first call, and gather_touched sets them to zero again.
  /// O(count).
  void (*scatter_add)(const void* items, std::size_t count, void* sums, std::uint64_t* touched);

  /// Writes a list to `items`. The list contains all elements of `sums` whose bit in `touched` is set. Then sets both
  /// arrays to zero. `region` is the number of elements of `sums`. Returns the length of the list. If scatter_add was
  /// called for lists 0, 1, 2, …, the value of an item is 0 + v0 + v1 + v2 + …. The values are added in this order in
  /// the residual's type, and the sum is rounded once to nearest even. Sums that round to zero are left out. The
  /// capacity of `items` must be at least the number of set bits. O(set bits + region / 64).
  std::size_t (*gather_touched)(void* sums, std::uint64_t* touched, std::size_t region, void* items);

  /// Removes the sent values that became part of the result from the residual. For each index that the lists `sent` and
  /// `arrived` have in common:
  ///
  ///     residual[index] -= sent value        if the items' type is narrower: the rounding error stays in the residual
  ///     residual[index] = 0                  if both types are equal, or if the difference is not finite
  ///
  /// Returns the number of common indices. In both lists, the first element of the residual has index 0. Values in
  /// `arrived` are not read. O(sent_count + arrived_count), without a branch for each item.
  std::size_t (*settle)(void* residual, const void* sent, std::size_t sent_count, const void* arrived,
                        std::size_t arrived_count);
};

/// Returns the kernels of a floating type, for the best SIMD target of this machine. Returns a table of null pointers
/// for all other types.
const sparse_kernels& sparse_kernels_of(dtype type);

}  // namespace lsched
