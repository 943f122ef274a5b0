// The kernels of sparse_sum.h and residual.h. Compiled once for each SIMD target; include it only from code
// that is itself written for ops that Highway re-includes.

#include <cstddef>
#include <cstdint>

#include "ops/sparse/item-inl.h"
#include "ops/sparse/residual.h"
#include "ops/sparse/sparse_sum.h"

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
      to += (magnitude_of(sum.value) != 0) * item<Format>::size;
    }
    touched[word] = 0;
  }
  return static_cast<std::size_t>(to - static_cast<std::byte*>(items)) / item<Format>::size;
}

/// Two lists, walked together: from their first items to the end of one of them. A step takes the lesser index, or both
/// if they are equal. While there is an item behind both, the index of the next one is loaded before anybody knows
/// whether it will be wanted, so that a step need not wait for memory.
template <class Format>
class list_walk {
 public:
  HWY_INLINE list_walk(const void* lower, std::size_t lower_count, const void* upper, std::size_t upper_count)
      : lower_(static_cast<const std::byte*>(lower)),
        upper_(static_cast<const std::byte*>(upper)),
        lower_end_(lower_ + lower_count * k_size),
        upper_end_(upper_ + upper_count * k_size) {}

  /// visit(item of lower, item of upper, index of lower, index of upper), for each step.
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

  /// What is left of them; one is empty.
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

template <class Format>
HWY_INLINE std::byte* copy_items(const std::byte* from, const std::byte* end, std::byte* to) {
  for (; from != end; from += item<Format>::size, to += item<Format>::size) item<Format>::load(from).store(to);
  return to;
}

/// Notes on items that two lists have in common, to be dealt with a batch at a time: whether the next index is common
/// nobody can predict.
template <class Note>
class common_items {
 public:
  HWY_INLINE void note(const Note& it, bool is_common) {
    notes_[count_] = it;
    count_ += is_common;
  }
  HWY_INLINE bool is_full() const { return count_ == k_batch; }

  /// deal(note), for each; answers how many they were.
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
HWY_NOINLINE std::byte* drop_zeros(std::byte* items, std::byte* end) {
  std::byte* to = items;
  for (const std::byte* from = items; from != end; from += item<Format>::size) {
    const auto it = item<Format>::load(from);
    it.store(to);
    to += (magnitude_of(it.value) != 0) * item<Format>::size;
  }
  return to;
}

/// An item, and one with the same index whose value is to be added to it.
struct addition {
  std::byte* to;
  const std::byte* addend;
};

/// Answers whether the sum is zero.
template <class Format>
HWY_INLINE bool add_to_item(const addition& it) {
  auto sum = item<Format>::load(it.to);
  sum.value = to_element<Format>(to_lane<Format>(sum.value) + to_lane<Format>(item<Format>::value_at(it.addend)));
  sum.store(it.to);
  return magnitude_of(sum.value) == 0;
}

/// Of items in common, those of `lower` are copied like others, and have theirs added to them later.
template <class Format>
std::size_t merge_add(const void* lower, std::size_t lower_count, const void* upper, std::size_t upper_count,
                      void* items) {
  std::byte* const begin = static_cast<std::byte*>(items);
  std::byte* to = begin;
  bool has_zeros = false;
  common_items<addition> common;
  const auto add = [&](const addition& it) HWY_ATTR { has_zeros |= add_to_item<Format>(it); };
  list_walk<Format> walk(lower, lower_count, upper, upper_count);
  walk.run([&](const std::byte* one, const std::byte* other, std::uint32_t of_one, std::uint32_t of_other) HWY_ATTR {
    item<Format>::load(of_one <= of_other ? one : other).store(to);
    common.note({to, other}, of_one == of_other);
    to += item<Format>::size;
    if (common.is_full()) common.flush(add);
  });
  common.flush(add);
  to = copy_items<Format>(walk.lower(), walk.lower_end(), to);
  to = copy_items<Format>(walk.upper(), walk.upper_end(), to);
  if (has_zeros) to = drop_zeros<Format>(begin, to);
  return static_cast<std::size_t>(to - begin) / item<Format>::size;
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

/// Notes are the sent items; the cache is asked for a batch of elements at once. (To mark in a bitmap what has arrived,
/// instead of walking, takes half the time where the bitmap fits the second cache, and twice to four times as long
/// where one in a thousand is sent. Either is little beside a pass over the residual, and this one needs no memory.)
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

#endif  // LSCHED_OPS_SPARSE_SUM_INL_H
