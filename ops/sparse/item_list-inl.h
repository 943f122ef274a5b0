// The kernels of item_list.h, and the search for the k-th magnitude. Compiled once for each SIMD target; include it
// only from code that is itself written for ops that Highway re-includes.

#include <bit>
#include <cstddef>
#include <cstdint>

#include "ops/elementwise/divide-inl.h"
#include "ops/sparse/item-inl.h"
#include "ops/sparse/item_list.h"
#include "ops/sparse/top_k.h"

#if defined(LSCHED_OPS_ITEM_LIST_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LSCHED_OPS_ITEM_LIST_INL_H
#undef LSCHED_OPS_ITEM_LIST_INL_H
#else
#define LSCHED_OPS_ITEM_LIST_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lsched {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class Format>
void count_magnitudes(const void* items, std::size_t count, const magnitude_bins& where, std::uint64_t* bins) {
  const magnitude_bins local = where;  // which no bin aliases
  for_each_item<Format>(items, count, [&](const item<Format>& it) HWY_ATTR {
    const std::uint64_t magnitude = magnitude_of(it.value);
    if (magnitude < local.low) return;
    const std::uint64_t bin = (magnitude - local.low) >> local.shift;
    ++bins[bin < local.count ? bin : local.count - 1];
  });
}

/// What is not kept is written to where nobody looks, so that there is nothing to mispredict.
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

/// In blocks, whose values are put side by side to be divided.
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

/// Counts a magnitude that lies in one of the bins. Few do, as a rule, or all.
HWY_INLINE void count_within(std::uint64_t magnitude, const magnitude_bins& where, std::uint64_t* bins) {
  const std::uint64_t bin = (magnitude - where.low) >> where.shift;
  if (bin < where.count) ++bins[bin];
}

/// Narrows down where the k-th magnitude of some numbers lies, as an interval that halves 11 times with each histogram.
class kth_magnitude {
 public:
  /// They lie between low and low + 2^bits - 1, and are at least k, k > 0.
  HWY_INLINE kth_magnitude(std::size_t k, std::uint64_t low, unsigned bits) : k_(k), low_(low), bits_(bits) {}

  HWY_INLINE bool is_found() const { return bits_ == 0; }
  HWY_INLINE std::uint64_t low() const { return low_; }    ///< of the interval; when found, the magnitude
  HWY_INLINE std::size_t above() const { return above_; }  ///< numbers above the interval: fewer than k
  HWY_INLINE std::size_t from_low() const {
    return above_ + here_;
  }  ///< numbers not below it; after the first narrowing

  /// count(where, bins) calls count_within with all magnitudes.
  template <class Count>
  HWY_INLINE void narrow(const Count& count) {
    const unsigned digit = bits_ < k_digit ? bits_ : k_digit;
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
  static constexpr unsigned k_digit = 11;

  std::size_t k_;
  std::uint64_t low_;
  unsigned bits_;
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
  kth_magnitude kth(k, extremes.least, static_cast<unsigned>(std::bit_width(extremes.greatest - extremes.least)));
  while (!kth.is_found())
    kth.narrow([&](const magnitude_bins& where, std::uint64_t* bins) HWY_ATTR {
      for_each_item<Format>(
          items, count, [&](const item<Format>& it) HWY_ATTR { count_within(magnitude_of(it.value), where, bins); });
    });
  return {filter_items<Format>(items, count, kth.low(), k - kth.above(), items), kth.low()};
}

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lsched
HWY_AFTER_NAMESPACE();

#endif  // LSCHED_OPS_ITEM_LIST_INL_H
