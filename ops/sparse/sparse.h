// Sparse vectors in coordinate format, the order of their elements by magnitude, and their kernels.
//
// An *item* is a u32 index followed at once by a value of f16, bf16, f32 or f64: 6, 6, 8 or 12 bytes, little-endian, no
// padding, no alignment. A *list* is an array of items, ascending by index, no index twice, no value zero (of either
// sign). Indices count from a base that belongs to the list's context, so that a vector may be longer than 2^32. A
// prefix of a list is a list, and so are lists of ascending regions, one behind the other.
//
// The *magnitude* of a number is its bits without the sign, as an unsigned integer: as numbers grow, so does it;
// infinity lies above all finite ones, NaN above infinity. Items have an *order by magnitude*: the greater
// magnitude first, of equal ones the smaller index. It is a total order, and the same everywhere.
//
// The *residual* of a vector is what of it has not been sent yet. It is f32 for f16, bf16 and f32, and f64 for f64: as
// wide as arithmetic on these is (ops/kernel.h).
//
// What holds for all kernels of sparse vectors: they do not allocate; any number of threads may call them at once;
// the same bits in give the same bits out at every SIMD level, in the default floating-point environment. What they
// compute is the positive quiet NaN without payload where it is NaN; what they only move keeps its bits. Pointers may
// be null where there is nothing to point at; those to items and vectors need no alignment beyond that of an element,
// items none at all. Where nothing else is said, operands are disjoint. Kernels do not check that lists are lists.
#pragma once

#include <bit>
#include <cstring>

#include "ops/magnitude.h"

namespace lsched {

// ---- items

/// Bytes of an item.
constexpr std::size_t item_size(dtype type) { return sizeof(std::uint32_t) + size_of(type); }

/// The type of a vector's residual.
constexpr dtype residual_of(dtype type) { return type == dtype::f64 ? dtype::f64 : dtype::f32; }

/// In the total order, NaN come before all numbers, so that they are sent and everybody sees them; or they are passed
/// over as if they were zero, and stay where they are. `error` is `propagate` to kernels; a round that has any in its
/// result is refused then (result_check).
enum class nan_policy : std::uint8_t { propagate, ignore, error };

/// Magnitudes of a residual, as bits of its type: from least to most, both included; none if least is above most.
struct magnitude_range {
  std::uint64_t least = 1;
  std::uint64_t most = ~std::uint64_t{0};
};

/// Magnitude of a value as a number of a residual's type, f32 or f64.
constexpr std::uint64_t magnitude_in(dtype residual, double value) {
  if (residual == dtype::f32) return std::bit_cast<std::uint32_t>(static_cast<float>(value)) & 0x7FFFFFFFU;
  return std::bit_cast<std::uint64_t>(value) & ~(std::uint64_t{1} << 63);
}

/// Magnitude of an item's value.
inline std::uint64_t magnitude_of_item(dtype type, const std::byte* item) {
  return magnitude_at(type, item + sizeof(std::uint32_t));
}

/// Index of the i-th item of a list.
inline std::uint32_t index_at(dtype type, const std::byte* items, std::uint64_t i) {
  std::uint32_t index = 0;
  std::memcpy(&index, items + i * item_size(type), sizeof index);
  return index;
}

/// Words of a bitmap of so many elements.
constexpr std::size_t bitmap_words(std::size_t count) { return count / 64 + (count % 64 != 0 ? 1 : 0); }

// ---- operands and results of kernels

/// A residual, and what is to be added to it:
///
///     residual[i] = residual[i] + scale * gradient[i]
///
/// computed in the residual's type, to which scale is rounded first; product and sum are rounded each, and a scale of 1
/// is a mere sum. Without a gradient (nullptr) the residual is only read.
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
};

/// What keep_largest left.
struct kept_items {
  std::size_t count = 0;
  std::uint64_t magnitude = 0;  ///< the least that is kept, as bits of the items' type; 0 if there is none
};

/// Where one round of top_k leaves a hint for the next one, over the same vector. A hint costs or saves time, and
/// changes no result.
struct top_k_hint {
  std::uint64_t least = 0;  ///< magnitude in the items' type to look from, somewhat below the k-th; 0: none yet
};

/// What top_k found.
struct top_k_list {
  std::size_t count = 0;        ///< min(k, elements that are not zero when rounded), without NaN if these are ignored
  std::uint64_t magnitude = 0;  ///< of the last in the order by magnitude, as bits of the items' type; 0: there is none
  std::size_t passes = 0;       ///< over the residual: 1 if the hint was good
};

/// Equal bins of magnitudes: bin b counts those from low + (b << shift) up to the beginning of the next one; the last
/// bin has all above, too, and what is below `low` is not counted. Magnitudes are bits of the items' type; shift is
/// below 64.
struct magnitude_bins {
  std::uint64_t low = 0;
  unsigned shift = 0;
  std::size_t count = 0;  ///< of bins, at least 1
};

// ---- kernels

/// The kernels of one floating type, which is that of values.
struct sparse_kernels {
  /// Accumulates, then appends to `items`, by index, every element whose magnitude lies within `range`, its value
  /// rounded to nearest even. Only the first `room` of them are stored, and nothing is written behind these. What would
  /// round to zero is never selected, whatever the range. O(count): at memory's speed where few are selected.
  select_result (*accumulate_select)(const accumulation& from, magnitude_range range, void* items, std::size_t room);

  /// Accumulates once, then writes to `items`, by index, the first k elements of the order by magnitude that are not
  /// zero: of values rounded to the items' type, equal ones by index. `items` also is the space to work in: room is at
  /// least min(k, count), and with twice to four times k a single pass will mostly do. All of it may be overwritten.
  ///
  /// The pass looks from the hint, which is 0.85 times the k-th magnitude of the round before. If that gives too many
  /// for the room or too few, histograms of magnitudes, 11 bits at a time, narrow the place of the k-th until all from
  /// there on fit: a pass each, one mostly, 3 at most for f32 (2 for 16 bits, 6 for f64), and one more to select.
  top_k_list (*top_k)(const accumulation& from, std::size_t k, nan_policy nans, void* items, std::size_t room,
                      top_k_hint& hint);

  /// Keeps the first min(k, count) items of the order by magnitude, in place and by index. The others are lost.
  /// O(count): a pass for the extremes, one for every 11 bits in which these differ, one to keep.
  kept_items (*keep_largest)(void* items, std::size_t count, std::size_t k);

  /// Adds to bins[0 … where.count) how many items have such magnitudes. O(count).
  void (*count_magnitudes)(const void* items, std::size_t count, const magnitude_bins& where, std::uint64_t* bins);

  /// Writes to `output`, by index, the items above a magnitude (bits of the items' type), and of those equal to it the
  /// first `ties`; answers how many these are. Nothing is written behind them. output is items, or disjoint from them.
  /// O(count).
  std::size_t (*filter_items)(const void* items, std::size_t count, std::uint64_t magnitude, std::size_t ties,
                              void* output);

  /// dense[index] = value / divisor, as find_divide's kernels divide (ops/kernel.h). The rest of `dense` is left as it
  /// is. O(count).
  void (*scatter)(const void* items, std::size_t count, std::uint64_t divisor, void* dense);

  /// sums[index] += value, and bit index % 64 of touched[index / 64] is set. `sums`, of the residual's type, and the
  /// bitmap begin as zeros; both are left so by gather_touched. O(count).
  void (*scatter_add)(const void* items, std::size_t count, void* sums, std::uint64_t* touched);

  /// Writes what was touched of a region of `region` elements as a list, answers its length, and zeroes sums and
  /// bitmap. After scatter_add of lists 0, 1, 2, … each item is 0 + v0 + v1 + v2 + …, added in this order in the
  /// residual's type and rounded once to nearest even; sums that are zero then are dropped. There is room for as many
  /// items as are touched. O(touched + region / 64).
  std::size_t (*gather_touched)(void* sums, std::uint64_t* touched, std::size_t region, void* items);

  /// Takes from a residual what was sent of it and is in the result: for each index that the list `sent` and the list
  /// `arrived` have in common,
  ///
  ///     residual[index] -= value sent        where values are narrower: what rounding cut off stays
  ///     residual[index] = 0                  where they are not, or that would not be finite
  ///
  /// Answers how many they are. Both lists have the residual's first element for base. Values of `arrived` are not
  /// looked at. O(sent_count + arrived_count), without a branch for each item.
  std::size_t (*settle)(void* residual, const void* sent, std::size_t sent_count, const void* arrived,
                        std::size_t arrived_count);
};

/// Of a floating type; the best that this machine can run.
const sparse_kernels& sparse_kernels_of(dtype type);

}  // namespace lsched
