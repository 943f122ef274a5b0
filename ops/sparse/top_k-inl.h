// The exact top k of top_k.h. Compiled once for each SIMD target; include it only from code that is itself written
// for ops that Highway re-includes.
//
// Why a part of the residual is enough. Let m be a magnitude of the items' type, and t the least magnitude of a
// residual that rounds to m or above. Rounding is monotone: elements from t on round to m or above, and those below t
// to less than m. So all elements below t come after all others in the order of rounded values, ties or no ties, and if
// k elements lie at or above t, then the first k are among them. (A t in the midst of what rounds to m would not do:
// elements below it could tie with elements above it, and win by their index.)

#include <bit>
#include <cstddef>
#include <cstdint>

#include "ops/elementwise/sweep-inl.h"
#include "ops/sparse/item_list-inl.h"
#include "ops/sparse/select-inl.h"
#include "ops/sparse/top_k.h"

#if defined(LSCHED_OPS_TOP_K_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LSCHED_OPS_TOP_K_INL_H
#undef LSCHED_OPS_TOP_K_INL_H
#else
#define LSCHED_OPS_TOP_K_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lsched {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// A residual as values of items; NaN become the quiet one, or zero.
template <class Format>
struct rounding_step {
  const typename Format::lane* from;
  typename Format::element* to;
  bool ignores_nan;

  template <class D>
  HWY_INLINE void operator()(D lanes, std::size_t first) const {
    const auto value = hn::LoadU(lanes, from + first);
    const auto nan = ignores_nan ? hn::Zero(lanes) : quiet_nan(lanes);
    Format::store(lanes, hn::IfThenElse(hn::IsNaN(value), nan, value), to + first);
  }
};

template <class Format>
class top_k_search {
 public:
  using lane = typename Format::lane;
  using element = typename Format::element;

  top_k_search(const accumulation& from, std::size_t k, nan_policy nans, void* items, std::size_t room)
      : from_(from),
        wanted_(k < from.count ? k : from.count),
        ignores_nan_(nans == nan_policy::ignore),
        items_(items),
        room_(room) {}

  /// `least`: where to look from, as a magnitude of items; 0: nobody knows.
  top_k_list run(std::uint64_t least) {
    const bool is_blind = wanted_ == 0 || least == 0;
    const magnitude_range nothing{1, 0};
    const select_result found = accumulate_select<Format>(from_, is_blind ? nothing : from_on(least), items_, room_);
    passes_ = 1;
    std::size_t candidates = found.stored;
    const bool has_all = found.counted == found.stored && (found.counted >= wanted_ || least == 1);
    if (wanted_ > 0 && !has_all) candidates = select_by_histograms();
    const kept_items kept = keep_largest<Format>(items_, candidates, wanted_);
    return {kept.count, kept.magnitude, found.sum, found.has_nan, passes_};
  }

 private:
  static constexpr std::size_t k_chunk = 256;

  magnitude_range from_on(std::uint64_t magnitude) const {
    return {least_rounding_to<Format>(magnitude), ignores_nan_ ? k_infinity_bits<lane> : k_magnitude_mask<lane>};
  }

  const lane* residual() const { return static_cast<const lane*>(from_.residual); }

  /// A superset of the wanted, or exactly these, for which there is room. The residual has its gradient by now. Zeros
  /// count among the numbers here, so there are enough of them; where the k-th is one, all that are not are less than
  /// k.
  std::size_t select_by_histograms() {
    kth_magnitude kth(wanted_, 0, std::bit_width(k_magnitude_mask<element>));
    do {
      kth.narrow([&](const magnitude_bins& where, std::uint64_t* bins) HWY_ATTR { count_rounded(where, bins); });
      ++passes_;
    } while (!kth.is_found() && kth.from_low() > room_);
    ++passes_;
    if (kth.low() > 0 && kth.from_low() > room_) return select_with_ties(kth.low(), wanted_ - kth.above());
    const magnitude_range range = from_on(kth.low() > 0 ? kth.low() : 1);
    return select<Format>(residual(), from_.count, from_.first_index, range, items_, room_).stored;
  }

  void count_rounded(const magnitude_bins& where, std::uint64_t* bins) const {
    HWY_ALIGN element rounded[k_selection_block];
    const magnitude_bins local = where;
    for (std::size_t done = 0; done < from_.count; done += k_selection_block) {
      const std::size_t size = from_.count - done < k_selection_block ? from_.count - done : k_selection_block;
      sweep<lane>(size, rounding_step<Format>{residual() + done, rounded, ignores_nan_});
      for (std::size_t i = 0; i < size; ++i) count_within(magnitude_of(rounded[i]), local, bins);
    }
  }

  /// All above a magnitude, and the first `ties` of those that equal it, which may be many.
  std::size_t select_with_ties(std::uint64_t magnitude, std::size_t ties) const {
    const magnitude_range above = from_on(magnitude + 1), all = from_on(magnitude);
    const magnitude_range* range = &all;
    std::byte chunk[k_chunk * item<Format>::size];
    std::byte* to = static_cast<std::byte*>(items_);
    for (std::size_t done = 0; done < from_.count; done += k_chunk) {
      const std::size_t size = from_.count - done < k_chunk ? from_.count - done : k_chunk;
      const std::uint32_t index = from_.first_index + static_cast<std::uint32_t>(done);
      const std::size_t found = select<Format>(residual() + done, size, index, *range, chunk, k_chunk).stored;
      const std::size_t kept = filter_items<Format>(chunk, found, magnitude, ties, to);
      ties -= ties_among(to, kept, magnitude);
      if (ties == 0) range = &above;
      to += kept * item<Format>::size;
    }
    return static_cast<std::size_t>(to - static_cast<std::byte*>(items_)) / item<Format>::size;
  }

  static std::size_t ties_among(const std::byte* items, std::size_t count, std::uint64_t magnitude) {
    std::size_t ties = 0;
    for_each_item<Format>(items, count,
                          [&](const item<Format>& it) HWY_ATTR { ties += magnitude_of(it.value) == magnitude; });
    return ties;
  }

  const accumulation& from_;
  std::size_t wanted_;
  bool ignores_nan_;
  void* items_;
  std::size_t room_;
  std::size_t passes_ = 0;
};

/// After fewer than k all that is not zero is looked at, as long as there is room for it. Nothing follows from a k-th
/// that is not finite.
template <class Format>
void update_hint(const top_k_list& found, std::size_t k, top_k_hint& hint) {
  using lane = typename Format::lane;
  if (k == 0) return;
  const auto bits = static_cast<bits_type<typename Format::element>>(found.magnitude);
  const lane magnitude = to_lane<Format>(std::bit_cast<typename Format::element>(bits));
  if (found.count < k) {
    hint.least = 1;
  } else if (magnitude_of(magnitude) < k_infinity_bits<lane>) {
    const std::uint64_t least = magnitude_of(to_element<Format>(magnitude * static_cast<lane>(0.85)));
    hint.least = least > 0 ? least : 1;
  }
}

template <class Format>
top_k_list top_k(const accumulation& from, std::size_t k, nan_policy nans, void* items, std::size_t room,
                 top_k_hint& hint) {
  const top_k_list found = top_k_search<Format>(from, k, nans, items, room).run(hint.least);
  update_hint<Format>(found, k, hint);
  return found;
}

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lsched
HWY_AFTER_NAMESPACE();

#endif  // LSCHED_OPS_TOP_K_INL_H
