// Sparse vectors in coordinate format, the order of their elements by magnitude, and their kernels.
//
// An *item* is a u32 index followed at once by a value of f16, bf16, f32 or f64. An item takes 6, 6, 8 or 12 bytes, is
// little-endian, and has neither padding nor alignment. A *list* is an array of items, ascending by index, without
// duplicate indices and without zeros of either sign. Indices count from a base that depends on the list's context, so
// that a vector may be longer than 2^32. A prefix of a list is a list. A concatenation of lists of ascending regions is
// a list.
//
// The *magnitude* of a number is its bits without the sign, as an unsigned integer (ops/magnitude.h). Items have an
// *order by magnitude*: the greater magnitude comes first, and of equal magnitudes the smaller index. The order is
// total, and the same on all ranks.
//
// The *residual* of a vector is the part that has not been sent yet. Its type is f32 for f16, bf16 and f32, and f64 for
// f64, which is the type of arithmetic on these (ops/kernel.h).
//
// All kernels of sparse vectors follow these rules. They do not allocate. Any number of threads may call them at once.
// In the default floating-point environment, equal input bits give equal output bits at every SIMD level. A computed
// NaN is always the positive quiet NaN without payload. A value that is only moved keeps its bits. A pointer may be
// null if there are no elements. Pointers to vectors need the alignment of an element, pointers to items need none.
// Operands are disjoint unless stated otherwise. Kernels do not check that lists are valid.
#pragma once

#include <bit>
#include <cstring>

#include "ops/magnitude.h"

namespace lsched {

// ---- items

/// Returns the bytes of an item whose value is of `type`.
constexpr std::size_t item_size(dtype type) { return sizeof(std::uint32_t) + size_of(type); }

/// Returns the residual's type for a vector of `type`.
constexpr dtype residual_of(dtype type) { return type == dtype::f64 ? dtype::f64 : dtype::f32; }

/// Treatment of NaNs. With `propagate`, NaNs come before all numbers in the order by magnitude, so they are sent to all
/// ranks. With `ignore`, they are skipped like zeros and stay in the residual. Kernels treat `error` as `propagate`,
/// and a round with a NaN in its result is refused (result_check).
enum class nan_policy : std::uint8_t { propagate, ignore, error };

/// A range of magnitudes of a residual, as bits of its type. Both ends are included. Empty if least is above most.
struct magnitude_range {
  std::uint64_t least = 1;
  std::uint64_t most = ~std::uint64_t{0};
};

/// Returns the magnitude of a value, converted to the residual's type, f32 or f64.
constexpr std::uint64_t magnitude_in(dtype residual, double value) {
  if (residual == dtype::f32) return std::bit_cast<std::uint32_t>(static_cast<float>(value)) & 0x7FFFFFFFU;
  return std::bit_cast<std::uint64_t>(value) & ~(std::uint64_t{1} << 63);
}

/// Returns the magnitude of an item's value.
inline std::uint64_t magnitude_of_item(dtype type, const std::byte* item) {
  return magnitude_at(type, item + sizeof(std::uint32_t));
}

/// Returns the index of the i-th item of a list.
inline std::uint32_t index_at(dtype type, const std::byte* items, std::uint64_t i) {
  std::uint32_t index = 0;
  std::memcpy(&index, items + i * item_size(type), sizeof index);
  return index;
}

/// Returns the words of a bitmap with one bit for each of `count` elements.
constexpr std::size_t bitmap_words(std::size_t count) { return count / 64 + (count % 64 != 0 ? 1 : 0); }

// ---- operands and results of kernels

/// A residual, and the gradient to add:
///
///     residual[i] = residual[i] + scale * gradient[i]
///
/// The arithmetic is in the residual's type. First scale is rounded to that type, then the product, then the sum. With
/// a scale of 1, only the sum is rounded. Without a gradient (nullptr) the residual is only read.
struct accumulation {
  void* residual = nullptr;
  const void* gradient = nullptr;  ///< of the items' type
  double scale = 1;
  std::size_t count = 0;          ///< elements
  std::uint32_t first_index = 0;  ///< index of element 0 in items; first_index + count is at most 2^32
};

/// Result of accumulate_select.
struct select_result {
  std::size_t stored = 0;   ///< items written
  std::size_t counted = 0;  ///< elements within the range, including elements that had no room
};

/// Result of keep_largest.
struct kept_items {
  std::size_t count = 0;
  std::uint64_t magnitude = 0;  ///< least kept magnitude, as bits of the items' type; 0 if no item is kept
};

/// A hint that a call of top_k leaves for the next call on the same vector. A hint affects the time, but no result.
struct top_k_hint {
  std::uint64_t least = 0;  ///< magnitude in the items' type from which to search, somewhat below the k-th; 0: none
};

/// Result of top_k.
struct top_k_list {
  std::size_t count = 0;        ///< min(k, elements that do not round to zero); NaNs do not count if they are ignored
  std::uint64_t magnitude = 0;  ///< least magnitude of the items, as bits of their type; 0: no items
  std::size_t passes = 0;       ///< passes over the residual; 1 if the hint was good
};

/// Bins of magnitudes, of equal width. Bin b counts magnitudes from low + (b << shift) up to the start of the next bin.
/// The last bin also counts all larger magnitudes. Magnitudes below `low` are not counted. Magnitudes are bits of the
/// items' type, and shift is below 64.
struct magnitude_bins {
  std::uint64_t low = 0;
  unsigned shift = 0;
  std::size_t count = 0;  ///< number of bins, at least 1
};

// ---- kernels

/// The kernels for items whose values are of one floating type.
struct sparse_kernels {
  /// Accumulates, then writes every element whose magnitude lies within `range` to `items`, ascending by index, with
  /// its value rounded to nearest even. Only the first `room` items are stored, and nothing is written behind them. An
  /// element that rounds to zero is never selected. O(count), at the speed of memory if few elements are selected.
  select_result (*accumulate_select)(const accumulation& from, magnitude_range range, void* items, std::size_t room);

  /// Accumulates once, then writes the first k elements of the order by magnitude to `items`, ascending by index. The
  /// order is that of values rounded to the items' type, without zeros. `items` is also the workspace, and all of it
  /// may be overwritten. room is at least min(k, count). With a room of two to four times k a single pass is usually
  /// enough.
  ///
  /// That pass selects from the hint on, which is 0.85 times the k-th magnitude of the previous round. It may find too
  /// few elements, or too many for the room. Then histograms of magnitudes narrow down the k-th magnitude, 11 bits at a
  /// time, until all elements from there on fit. Each histogram is a pass over the residual. Usually one is enough, and
  /// at most 3 are needed for f32 (2 for 16 bits, 6 for f64). One more pass selects.
  top_k_list (*top_k)(const accumulation& from, std::size_t k, nan_policy nans, void* items, std::size_t room,
                      top_k_hint& hint);

  /// Keeps the first min(k, count) items of the order by magnitude, in place and ascending by index. The other items
  /// are lost. O(count): a pass for the extremes, one for every 11 bits in which the extremes differ, and one to keep.
  kept_items (*keep_largest)(void* items, std::size_t count, std::size_t k);

  /// Adds the number of items in each bin to bins[0 … where.count). O(count).
  void (*count_magnitudes)(const void* items, std::size_t count, const magnitude_bins& where, std::uint64_t* bins);

  /// Writes the items above a magnitude (bits of the items' type) and the first `ties` items equal to it to `output`,
  /// ascending by index. Returns their number. Nothing is written behind them. `output` is identical with `items` or
  /// disjoint. O(count).
  std::size_t (*filter_items)(const void* items, std::size_t count, std::uint64_t magnitude, std::size_t ties,
                              void* output);

  /// Sets dense[index] = value / divisor for each item, with the rounding of find_divide (ops/kernel.h). The rest of
  /// `dense` is unchanged. O(count).
  void (*scatter)(const void* items, std::size_t count, std::uint64_t divisor, void* dense);

  /// For each item, adds the value to sums[index] and sets bit index % 64 of touched[index / 64]. `sums`, of the
  /// residual's type, and the bitmap must be zero before the first call. gather_touched zeroes both again. O(count).
  void (*scatter_add)(const void* items, std::size_t count, void* sums, std::uint64_t* touched);

  /// Writes the touched elements of a region of `region` elements as a list, and zeroes sums and bitmap. Returns the
  /// length of the list. After scatter_add of lists 0, 1, 2, … each item is 0 + v0 + v1 + v2 + …, added in this order
  /// in the residual's type and rounded once to nearest even. Sums that round to zero are dropped. `items` needs room
  /// for all touched elements. O(touched + region / 64).
  std::size_t (*gather_touched)(void* sums, std::uint64_t* touched, std::size_t region, void* items);

  /// Removes the sent values that are in the result from a residual. For each index that the lists `sent` and `arrived`
  /// have in common:
  ///
  ///     residual[index] -= sent value        if values are narrower than the residual: the rounding error stays
  ///     residual[index] = 0                  if they are not, or if the difference is not finite
  ///
  /// Returns the number of these indices. In both lists the residual's first element has the index 0. The values of
  /// `arrived` are not read. O(sent_count + arrived_count), without a branch for each item.
  std::size_t (*settle)(void* residual, const void* sent, std::size_t sent_count, const void* arrived,
                        std::size_t arrived_count);
};

/// Returns the kernels of a floating type for the best SIMD target of this machine. For other types all pointers are
/// null.
const sparse_kernels& sparse_kernels_of(dtype type);

}  // namespace lsched
