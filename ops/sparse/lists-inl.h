// Kernels for lists of items, and the search for the k-th largest magnitude. This file is compiled once for each SIMD
// target. Include this file only from files that Highway re-includes for each target.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ops/elementwise/elements-inl.h"
#include "ops/sparse/sparse.h"

#if defined(LSCHED_OPS_LISTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LSCHED_OPS_LISTS_INL_H
#undef LSCHED_OPS_LISTS_INL_H
#else
#define LSCHED_OPS_LISTS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lsched {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// ---- single items and numbers

/// Mask of the magnitude bits of an element or a lane.
template <class Number>
inline constexpr bits_type<Number> k_magnitude_mask = static_cast<bits_type<Number>>(~bits_type<Number>{0}) >> 1;
template <class Lane>
inline constexpr bits_type<Lane> k_infinity_bits = sizeof(Lane) == 4 ? 0x7F800000U : 0x7FF0000000000000U;

template <class Number>
HWY_INLINE bits_type<Number> magnitude_of(Number value) {
  return std::bit_cast<bits_type<Number>>(value) & k_magnitude_mask<Number>;
}

/// Rounds one number to a format. bf16 has scalar code, because vector code for a single lane is slower.
template <class Format>
HWY_INLINE typename Format::element to_element(typename Format::lane value) {
  if constexpr (std::is_same_v<Format, brain>) {
    const auto exact = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t nearest = (exact + 0x7FFFU + (exact >> 16 & 1U)) >> 16;
    return static_cast<std::uint16_t>(magnitude_of(value) > k_infinity_bits<float> ? 0x7FC0U : nearest);
  } else {
    const hn::CappedTag<typename Format::lane, 1> one;
    typename Format::element rounded;
    Format::store(one, canonical(one, hn::Set(one, value)), &rounded);
    return rounded;
  }
}

template <class Format>
HWY_INLINE typename Format::lane to_lane(typename Format::element value) {
  const hn::CappedTag<typename Format::lane, 1> one;
  return hn::GetLane(Format::load(one, &value));
}

/// An item (sparse.h). Items in memory need no alignment.
template <class Format>
struct item {
  using element = typename Format::element;
  static constexpr std::size_t size = sizeof(std::uint32_t) + sizeof(element);

  std::uint32_t index;
  element value;

  static HWY_INLINE std::uint32_t index_at(const std::byte* from) {
    std::uint32_t index;
    hwy::CopyBytes<sizeof index>(from, &index);
    return index;
  }
  static HWY_INLINE element value_at(const std::byte* from) {
    element value;
    hwy::CopyBytes<sizeof value>(from + sizeof(std::uint32_t), &value);
    return value;
  }
  static HWY_INLINE item load(const std::byte* from) { return {index_at(from), value_at(from)}; }
  HWY_INLINE void store(std::byte* to) const {
    hwy::CopyBytes<sizeof index>(&index, to);
    hwy::CopyBytes<sizeof value>(&value, to + sizeof index);
  }
};

/// Returns `bits` if `condition` is true, else 0. A conditional expression would be compiled to a branch, which the CPU
/// could not predict.
template <class Bits>
HWY_INLINE Bits if_true(bool condition, Bits bits) {
  return static_cast<Bits>(-static_cast<Bits>(condition)) & bits;
}

template <class Format, class Visit>
HWY_INLINE void for_each_item(const void* items, std::size_t count, const Visit& visit) {
  const auto* from = static_cast<const std::byte*>(items);
  for (const std::byte* const end = from + count * item<Format>::size; from != end; from += item<Format>::size)
    visit(item<Format>::load(from));
}

// ---- one list

template <class Format>
void count_magnitudes(const void* items, std::size_t count, const magnitude_bins& where, std::uint64_t* bins) {
  const magnitude_bins local = where;  // writes to `bins` cannot change this copy, so it can stay in registers
  for_each_item<Format>(items, count, [&](const item<Format>& it) HWY_ATTR {
    const std::uint64_t magnitude = magnitude_of(it.value);
    if (magnitude < local.low) return;
    const std::uint64_t bin = (magnitude - local.low) >> local.shift;
    ++bins[bin < local.count ? bin : local.count - 1];
  });
}

/// Removed items are written to `nowhere`, so that the loop needs no branch that depends on the item.
template <class Format>
std::size_t filter_items(const void* items, std::size_t count, std::uint64_t magnitude, std::size_t ties,
                         void* output) {
  std::byte* to = static_cast<std::byte*>(output);
  std::byte nowhere[item<Format>::size];
  for_each_item<Format>(items, count, [&](const item<Format>& it) HWY_ATTR {
    const std::uint64_t own = magnitude_of(it.value);
    const bool is_tie = (own == magnitude) & (ties > 0);
    const bool is_kept = (own > magnitude) | is_tie;
    it.store(is_kept ? to : nowhere);
    to += if_true(is_kept, item<Format>::size);
    ties -= is_tie;
  });
  return static_cast<std::size_t>(to - static_cast<std::byte*>(output)) / item<Format>::size;
}

/// For each block of up to 256 items: copies the values to an array, divides them with SIMD code, and writes each
/// quotient to dense[index].
template <class Format>
void scatter(const void* items, std::size_t count, std::uint64_t divisor, void* dense) {
  constexpr std::size_t block = 256;
  typename Format::element values[block];
  auto* to = static_cast<typename Format::element*>(dense);
  const auto* from = static_cast<const std::byte*>(items);
  while (count > 0) {
    const std::size_t here = count < block ? count : block;
    for (std::size_t i = 0; i < here; ++i) values[i] = item<Format>::value_at(from + i * item<Format>::size);
    divide<Format>(values, values, here, divisor);
    for (std::size_t i = 0; i < here; ++i) to[item<Format>::index_at(from + i * item<Format>::size)] = values[i];
    from += here * item<Format>::size;
    count -= here;
  }
}

/// Counts a magnitude if it lies in one of the bins. Usually few or all magnitudes lie in the bins, so the branch is
/// well predicted.
HWY_INLINE void count_within(std::uint64_t magnitude, const magnitude_bins& where, std::uint64_t* bins) {
  const std::uint64_t bin = (magnitude - where.low) >> where.shift;
  if (bin < where.count) ++bins[bin];
}

/// Finds the k-th largest magnitude of a set of numbers. The search keeps an interval that contains this magnitude.
/// Each histogram divides the length of the interval by 2^digit.
class kth_magnitude {
 public:
  static constexpr unsigned k_digit = 11;
  /// Returns the digit that is best if a histogram needs no pass over a residual. To count a small set takes less time
  /// than to clear and to search 2^11 bins.
  static constexpr unsigned digit_for(std::size_t numbers) { return numbers < 1024 ? 6 : k_digit; }

  /// The set must contain at least k numbers, and k must be positive. All magnitudes must lie between `low` and low +
  /// 2^bits - 1.
  HWY_INLINE kth_magnitude(std::size_t k, std::uint64_t low, unsigned bits, unsigned digit = k_digit)
      : k_(k), low_(low), bits_(bits), digit_(digit) {}

  HWY_INLINE bool is_found() const { return bits_ == 0; }
  HWY_INLINE std::uint64_t low() const { return low_; }    ///< start of the interval, finally the k-th magnitude
  HWY_INLINE std::size_t above() const { return above_; }  ///< count of numbers above the interval; less than k
  /// Count of numbers in or above the interval. Valid after the first narrow().
  HWY_INLINE std::size_t from_low() const { return above_ + here_; }

  /// Narrows the interval with one histogram. The caller's count(where, bins) must call count_within for every
  /// magnitude.
  template <class Count>
  HWY_INLINE void narrow(const Count& count) {
    const unsigned digit = bits_ < digit_ ? bits_ : digit_;
    const magnitude_bins where{low_, bits_ - digit, std::size_t{1} << digit};
    std::uint64_t bins[std::size_t{1} << k_digit];
    for (std::size_t b = 0; b < where.count; ++b) bins[b] = 0;
    count(where, bins);
    std::size_t b = where.count - 1;
    for (; above_ + bins[b] < k_; --b) above_ += bins[b];
    here_ = bins[b];
    low_ += static_cast<std::uint64_t>(b) << where.shift;
    bits_ = where.shift;
  }

 private:
  std::size_t k_;
  std::uint64_t low_;
  unsigned bits_;
  unsigned digit_;
  std::size_t above_ = 0;
  std::size_t here_ = 0;
};

struct magnitude_extremes {
  std::uint64_t least = ~std::uint64_t{0};
  std::uint64_t greatest = 0;
};

template <class Format>
HWY_INLINE magnitude_extremes extremes_of(const void* items, std::size_t count) {
  magnitude_extremes found;
  for_each_item<Format>(items, count, [&](const item<Format>& it) HWY_ATTR {
    const std::uint64_t magnitude = magnitude_of(it.value);
    found.least = magnitude < found.least ? magnitude : found.least;
    found.greatest = magnitude > found.greatest ? magnitude : found.greatest;
  });
  return found;
}

template <class Format>
kept_items keep_largest(void* items, std::size_t count, std::size_t k) {
  if (k == 0 || count == 0) return {};
  const magnitude_extremes extremes = extremes_of<Format>(items, count);
  if (count <= k) return {count, extremes.least};
  kth_magnitude kth(k, extremes.least, static_cast<unsigned>(std::bit_width(extremes.greatest - extremes.least)),
                    kth_magnitude::digit_for(count));
  while (!kth.is_found())
    kth.narrow([&](const magnitude_bins& where, std::uint64_t* bins) HWY_ATTR {
      for_each_item<Format>(
          items, count, [&](const item<Format>& it) HWY_ATTR { count_within(magnitude_of(it.value), where, bins); });
    });
  return {filter_items<Format>(items, count, kth.low(), k - kth.above(), items), kth.low()};
}

// ---- two lists

template <class Format>
void scatter_add(const void* items, std::size_t count, void* sums, std::uint64_t* touched) {
  auto* to = static_cast<typename Format::lane*>(sums);
  for_each_item<Format>(items, count, [&](const item<Format>& it) HWY_ATTR {
    to[it.index] += to_lane<Format>(it.value);
    touched[it.index / 64] |= std::uint64_t{1} << it.index % 64;
  });
}

template <class Format>
std::size_t gather_touched(void* sums, std::uint64_t* touched, std::size_t region, void* items) {
  auto* from = static_cast<typename Format::lane*>(sums);
  std::byte* to = static_cast<std::byte*>(items);
  for (std::size_t word = 0; word < bitmap_words(region); ++word) {
    if (touched[word] == 0) continue;
    for (std::uint64_t left = touched[word]; left != 0; left &= left - 1) {
      const std::size_t i = word * 64 + hwy::Num0BitsBelowLS1Bit_Nonzero64(left);
      const item<Format> sum{static_cast<std::uint32_t>(i), to_element<Format>(from[i])};
      from[i] = 0;
      sum.store(to);
      to += (magnitude_of(sum.value) != 0) * item<Format>::size;
    }
    touched[word] = 0;
  }
  return static_cast<std::size_t>(to - static_cast<std::byte*>(items)) / item<Format>::size;
}

/// Walks two lists together until one list ends. A step advances the list with the smaller index, or both lists if the
/// indices are equal. The next index of each list is loaded one step early, so that a step does not wait for memory.
template <class Format>
class list_walk {
 public:
  HWY_INLINE list_walk(const void* lower, std::size_t lower_count, const void* upper, std::size_t upper_count)
      : lower_(static_cast<const std::byte*>(lower)),
        upper_(static_cast<const std::byte*>(upper)),
        lower_end_(lower_ + lower_count * k_size),
        upper_end_(upper_ + upper_count * k_size) {}

  /// Calls visit(item of lower, item of upper, index of lower, index of upper) for each step.
  template <class Visit>
  HWY_INLINE void run(const Visit& visit) {
    if (lower_ == lower_end_ || upper_ == upper_end_) return;
    std::uint32_t of_lower = item<Format>::index_at(lower_), of_upper = item<Format>::index_at(upper_);
    const std::byte* const lower_last = lower_end_ - k_size;
    const std::byte* const upper_last = upper_end_ - k_size;
    while (lower_ != lower_last && upper_ != upper_last) {
      const std::uint32_t next_lower = item<Format>::index_at(lower_ + k_size);
      const std::uint32_t next_upper = item<Format>::index_at(upper_ + k_size);
      visit(lower_, upper_, of_lower, of_upper);
      const bool takes_lower = of_lower <= of_upper, takes_upper = of_upper <= of_lower;
      lower_ += takes_lower * k_size;
      upper_ += takes_upper * k_size;
      of_lower ^= if_true(takes_lower, of_lower ^ next_lower);
      of_upper ^= if_true(takes_upper, of_upper ^ next_upper);
    }
    while (lower_ != lower_end_ && upper_ != upper_end_) {
      of_lower = item<Format>::index_at(lower_), of_upper = item<Format>::index_at(upper_);
      visit(lower_, upper_, of_lower, of_upper);
      lower_ += (of_lower <= of_upper) * k_size;
      upper_ += (of_upper <= of_lower) * k_size;
    }
  }

  /// Return the remaining items of each list after run(). In at least one list, no items remain.
  HWY_INLINE const std::byte* lower() const { return lower_; }
  HWY_INLINE const std::byte* lower_end() const { return lower_end_; }
  HWY_INLINE const std::byte* upper() const { return upper_; }
  HWY_INLINE const std::byte* upper_end() const { return upper_end_; }

 private:
  static constexpr std::size_t k_size = item<Format>::size;

  const std::byte* lower_;
  const std::byte* upper_;
  const std::byte* lower_end_;
  const std::byte* upper_end_;
};

/// Collects a note (any value) for each index that two lists have in common. Notes are processed in batches, because
/// immediate processing would need a branch that the CPU cannot predict.
template <class Note>
class common_items {
 public:
  HWY_INLINE void note(const Note& one, bool is_common) {
    notes_[count_] = one;
    count_ += is_common;
  }
  HWY_INLINE bool is_full() const { return count_ == k_batch; }

  /// Calls deal(note) for each note and removes all notes. Returns the number of removed notes.
  template <class Deal>
  HWY_INLINE std::size_t flush(const Deal& deal) {
    const std::size_t count = count_;
    for (std::size_t i = 0; i < count; ++i) deal(notes_[i]);
    count_ = 0;
    return count;
  }

 private:
  static constexpr std::size_t k_batch = 64;

  Note notes_[k_batch];
  std::size_t count_ = 0;
};

template <class Format>
HWY_INLINE void settle_item(typename Format::lane* residual, const item<Format>& sent) {
  using lane = typename Format::lane;
  lane rest = 0;
  if constexpr (sizeof(typename Format::element) < sizeof(lane)) {
    rest = residual[sent.index] - to_lane<Format>(sent.value);
    if (magnitude_of(rest) >= k_infinity_bits<lane>) rest = 0;
  }
  residual[sent.index] = rest;
}

/// For each sent item that has arrived, removes the item's value from the residual. `common` collects pointers to these
/// items. When `common` is full, one loop processes all of them, so that the loads from the residual overlap.
template <class Format>
std::size_t settle(void* residual, const void* sent, std::size_t sent_count, const void* arrived,
                   std::size_t arrived_count) {
  auto* const rest = static_cast<typename Format::lane*>(residual);
  std::size_t settled = 0;
  common_items<const std::byte*> common;
  const auto settle_one = [&](const std::byte* it) HWY_ATTR { settle_item<Format>(rest, item<Format>::load(it)); };
  list_walk<Format>(sent, sent_count, arrived, arrived_count)
      .run([&](const std::byte* one, const std::byte*, std::uint32_t of_one, std::uint32_t of_other) HWY_ATTR {
        common.note(one, of_one == of_other);
        if (common.is_full()) settled += common.flush(settle_one);
      });
  return settled + common.flush(settle_one);
}

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lsched
HWY_AFTER_NAMESPACE();

#endif  // LSCHED_OPS_LISTS_INL_H
