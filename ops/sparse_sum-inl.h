// The kernels of ops/sparse_sum.h and ops/residual.h. Compiled once for each SIMD target; include it only from code
// that is itself written for ops that Highway re-includes.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ops/item-inl.h"
#include "ops/residual.h"
#include "ops/sparse_sum.h"

#if defined(LSCHED_OPS_SPARSE_SUM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LSCHED_OPS_SPARSE_SUM_INL_H
#undef LSCHED_OPS_SPARSE_SUM_INL_H
#else
#define LSCHED_OPS_SPARSE_SUM_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lsched {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

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
      to += magnitude_of(sum.value) != 0 ? item<Format>::size : 0;
    }
    touched[word] = 0;
  }
  return static_cast<std::size_t>(to - static_cast<std::byte*>(items)) / item<Format>::size;
}

/// Two lists, walked together.
template <class Format>
struct list_walk {
  const std::byte* lower;
  const std::byte* upper;
  const std::byte* lower_end;
  const std::byte* upper_end;

  HWY_INLINE list_walk(const void* lower_items, std::size_t lower_count, const void* upper_items,
                       std::size_t upper_count)
      : lower(static_cast<const std::byte*>(lower_items)),
        upper(static_cast<const std::byte*>(upper_items)),
        lower_end(lower + lower_count * item<Format>::size),
        upper_end(upper + upper_count * item<Format>::size) {}

  HWY_INLINE bool has_both() const { return lower != lower_end && upper != upper_end; }

  /// Beyond the items at index `of_lower` and `of_upper`, of which the lesser one has been dealt with, or both.
  HWY_INLINE void advance(std::uint32_t of_lower, std::uint32_t of_upper) {
    lower += of_lower <= of_upper ? item<Format>::size : 0;
    upper += of_upper <= of_lower ? item<Format>::size : 0;
  }
};

template <class Format>
HWY_INLINE std::byte* copy_items(const std::byte* from, const std::byte* end, std::byte* to) {
  for (; from != end; from += item<Format>::size, to += item<Format>::size) item<Format>::load(from).store(to);
  return to;
}

template <class Format>
std::size_t merge_add(const void* lower, std::size_t lower_count, const void* upper, std::size_t upper_count,
                      void* items) {
  list_walk<Format> at(lower, lower_count, upper, upper_count);
  std::byte* to = static_cast<std::byte*>(items);
  while (at.has_both()) {
    const auto one = item<Format>::load(at.lower), other = item<Format>::load(at.upper);
    const auto sum = to_element<Format>(to_lane<Format>(one.value) + to_lane<Format>(other.value));
    const bool is_common = one.index == other.index;
    item<Format> next = one.index < other.index ? one : other;
    next.value = is_common ? sum : next.value;
    next.store(to);
    to += !is_common || magnitude_of(sum) != 0 ? item<Format>::size : 0;
    at.advance(one.index, other.index);
  }
  to = copy_items<Format>(at.lower, at.lower_end, to);
  to = copy_items<Format>(at.upper, at.upper_end, to);
  return static_cast<std::size_t>(to - static_cast<std::byte*>(items)) / item<Format>::size;
}

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

/// What the lists have in common is noted down, and dealt with a batch at a time: whether the next index is common
/// nobody can predict, and where it leads the cache must be asked for early.
template <class Format>
std::size_t settle(void* residual, const void* sent, std::size_t sent_count, const void* arrived,
                   std::size_t arrived_count) {
  constexpr std::size_t k_batch = 64;
  auto* const rest = static_cast<typename Format::lane*>(residual);
  list_walk<Format> at(sent, sent_count, arrived, arrived_count);
  const std::byte* common[k_batch];
  std::size_t noted = 0, settled = 0;
  const auto settle_batch = [&]() HWY_ATTR {
    for (std::size_t i = 0; i < noted; ++i) settle_item<Format>(rest, item<Format>::load(common[i]));
    settled += noted;
    noted = 0;
  };
  while (at.has_both()) {
    const std::uint32_t one = item<Format>::index_at(at.lower), other = item<Format>::index_at(at.upper);
    common[noted] = at.lower;
    noted += one == other;
    at.advance(one, other);
    if (noted == k_batch) settle_batch();
  }
  settle_batch();
  return settled;
}

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lsched
HWY_AFTER_NAMESPACE();

#endif  // LSCHED_OPS_SPARSE_SUM_INL_H
