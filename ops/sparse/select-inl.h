// Selects items from a residual in one pass, and searches for its exact top k. This file is compiled once for each SIMD
// target. Include this file only from files that Highway re-includes for each target.
//
// Elements are processed in words of 64. Vector comparisons produce one bit for each element. Then an item is written
// for each set bit, one by one, so nothing is ever written behind the last item. If few elements are selected, this
// method is as fast as a compress instruction. (On some CPUs, a compress instruction that stores to memory is slow.)
//
// The search for the top k needs only elements whose magnitude is at least a threshold t. Let m be a magnitude of the
// items' type, and let t be the smallest residual magnitude that rounds to m or to a larger value. Rounding is
// monotone. So elements of at least t round to at least m, and elements below t round to less than m. So if at least k
// elements are not below t, the top k are among these elements. (A larger t that also rounds to m would be wrong. An
// element below t could then round to the same value as an element above t, and come first by its index.)

#include <cstddef>
#include <cstdint>

#include "ops/sparse/lists-inl.h"

#include "hwy/cache_control.h"

#if defined(LSCHED_OPS_SELECT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LSCHED_OPS_SELECT_INL_H
#undef LSCHED_OPS_SELECT_INL_H
#else
#define LSCHED_OPS_SELECT_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lsched {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t k_selection_block = 1024;  ///< elements

// ---- select

/// Returns the smallest residual magnitude that rounds, in the format, to `magnitude` or to a larger value. If no
/// residual magnitude rounds to at least `magnitude`, the result exceeds all magnitudes.
template <class Format>
std::uint64_t least_rounding_to(std::uint64_t magnitude) {
  using lane = typename Format::lane;
  using bits = bits_type<lane>;
  bits low = 0, high = k_magnitude_mask<lane> + 1;
  while (low < high) {
    const bits middle = static_cast<bits>(low + (high - low) / 2);
    if (magnitude_of(to_element<Format>(std::bit_cast<lane>(middle))) >= magnitude)
      high = middle;
    else
      low = static_cast<bits>(middle + 1);
  }
  return low;
}

/// Returns the mask as an integer. Bit i belongs to lane i.
template <class D>
HWY_INLINE std::uint64_t bits_of_mask(D lanes, hn::Mask<D> mask) {
  static_assert(hn::MaxLanes(D()) <= 16);
  std::conditional_t<(hn::MaxLanes(D()) > 8), std::uint16_t, std::uint8_t> bits = 0;
  hn::StoreMaskBits(lanes, mask, reinterpret_cast<std::uint8_t*>(&bits));
  return bits;
}

/// Writes items to an array with a capacity of `room` items. Items beyond this capacity are counted, but not stored.
template <class Format>
class item_writer {
 public:
  using lane = typename Format::lane;

  HWY_INLINE item_writer(void* items, std::size_t room) : to_(static_cast<std::byte*>(items)), room_(room) {}

  /// Appends an item for each position in `places`. The positions are ascending, and refer to `values`. Position 0 has
  /// the index `first_index`.
  HWY_INLINE void append(const lane* values, std::uint32_t first_index, const std::uint16_t* places,
                         std::size_t count) {
    counted_ += count;
    if (count > room_ - stored_) count = room_ - stored_;
    stored_ += count;
    for (std::size_t n = 0; n < count; ++n, to_ += item<Format>::size)
      item<Format>{first_index + places[n], to_element<Format>(values[places[n]])}.store(to_);
  }

  HWY_INLINE std::size_t stored() const { return stored_; }
  HWY_INLINE std::size_t counted() const { return counted_; }

 private:
  std::byte* to_;
  std::size_t room_;
  std::size_t stored_ = 0;
  std::size_t counted_ = 0;
};

/// Positions of the selected elements in a block.
class place_list {
 public:
  /// Appends the position of each set bit of `hits`. Bit 0 stands for the position `first`. At least k_at_once entries
  /// are written, to avoid a branch that could be mispredicted. Surplus entries are overwritten later.
  HWY_INLINE void append(std::uint64_t hits, std::size_t first) {
    std::uint16_t* to = places_ + count_;
    count_ += hwy::PopCount(hits);
    HWY_UNROLL(4)
    for (std::size_t n = 0; n < k_at_once; ++n) *to++ = next_of(hits, first);
    while (hits != 0) *to++ = next_of(hits, first);
  }

  HWY_INLINE const std::uint16_t* begin() const { return places_; }
  HWY_INLINE std::size_t count() const { return count_; }

 private:
  static constexpr std::size_t k_at_once = 4;

  static HWY_INLINE std::uint16_t next_of(std::uint64_t& hits, std::size_t first) {
    const std::size_t place = first + hwy::Num0BitsBelowLS1Bit_Nonzero64(hits | std::uint64_t{1} << 63);
    hits &= hits - 1;
    return static_cast<std::uint16_t>(place);
  }

  std::size_t count_ = 0;
  std::uint16_t places_[k_selection_block + k_at_once];
};

/// Selects items in one pass over a residual. If `Accumulates` is true, the pass first adds the scaled gradient to each
/// element.
template <class Format, bool Accumulates>
class selecting_pass {
 public:
  using lane = typename Format::lane;
  using element = typename Format::element;

  HWY_INLINE selecting_pass(const accumulation& from, magnitude_range range, void* items, std::size_t room)
      : from_(from), factor_(static_cast<lane>(from.scale)), items_(items, room) {
    const std::uint64_t not_zero = least_rounding_to<Format>(1);
    const std::uint64_t least = range.least < not_zero ? not_zero : range.least;
    const std::uint64_t most = range.most < k_magnitude_mask<lane> ? range.most : k_magnitude_mask<lane>;
    const bool is_empty = least > most;
    // bias_ is added to each magnitude. As a signed integer, the sum is less than beyond_ exactly for the magnitudes in
    // [least, most].
    bias_ = static_cast<signed_bits>(~k_magnitude_mask<lane> - least);
    beyond_ = static_cast<signed_bits>(~k_magnitude_mask<lane> + (is_empty ? 0 : most - least + 1));
  }

  HWY_INLINE select_result run() {
    auto* residual = static_cast<lane*>(from_.residual);
    const auto* gradient = static_cast<const element*>(from_.gradient);
    for (std::size_t done = 0; done < from_.count; done += k_selection_block)
      add_block(residual + done, behind(gradient, done), done);
    return {items_.stored(), items_.counted()};
  }

 private:
  using signed_bits = std::make_signed_t<bits_type<lane>>;
  using D = hn::ScalableTag<lane>;
  using V = hn::VFromD<D>;
  static constexpr std::size_t k_word = 64;
  static constexpr std::size_t k_lanes = hn::MaxLanes(D());
  static_assert(k_word % k_lanes == 0 && k_selection_block % k_word == 0);

  static HWY_INLINE const element* behind(const element* gradient, std::size_t elements) {
    return Accumulates ? gradient + elements : nullptr;
  }

  HWY_INLINE void add_block(lane* residual, const element* gradient, std::size_t done) {
    const std::size_t size = from_.count - done < k_selection_block ? from_.count - done : k_selection_block;
    const std::size_t ahead = from_.count - done >= 2 * k_selection_block ? k_selection_block : 0;
    const std::uint32_t index = from_.first_index + static_cast<std::uint32_t>(done);
    place_list places;
    std::size_t i = 0;
    for (; size - i >= k_word; i += k_word) {
      fetch(residual + i + ahead);
      places.append(add_word(residual + i, behind(gradient, i)), i);
    }
    if (i < size) places.append(add_rest(residual + i, behind(gradient, i), size - i), i);
    items_.append(residual, index, places.begin(), places.count());
  }

  /// Prefetches one word of the next block. The hardware prefetcher would stop at the end of a page, or earlier.
  static HWY_INLINE void fetch(const lane* word) {
    constexpr std::size_t line = 64 / sizeof(lane);
    HWY_UNROLL(8)
    for (std::size_t i = 0; i < k_word; i += line) hwy::Prefetch(word + i);
  }

  /// Adds the scaled gradient to the residual, for one word of 64 elements. Returns a bit mask of the selected
  /// elements.
  HWY_INLINE std::uint64_t add_word(lane* residual, const element* gradient) const {
    const D lanes;
    const hn::RebindToSigned<D> bits;
    std::uint64_t hits = 0;
    HWY_UNROLL(64)
    for (std::size_t i = 0; i < k_word; i += k_lanes) {
      V value = hn::LoadU(lanes, residual + i);
      if constexpr (Accumulates) {
        const V product = hn::Mul(hn::Set(lanes, factor_), Format::load(lanes, gradient + i));
        value = canonical(lanes, hn::Add(value, product));
        hn::StoreU(value, lanes, residual + i);
      }
      const V absolute = hn::Abs(value);
      const auto from_least = hn::Add(hn::BitCast(bits, absolute), hn::Set(bits, bias_));
      const auto is_hit = hn::Lt(from_least, hn::Set(bits, beyond_));
      hits |= bits_of_mask(lanes, hn::RebindMask(lanes, is_hit)) << i;
    }
    return hits;
  }

  /// Does the same as add_word(), for `size` < 64 elements. The word is padded with zeros, which are never selected.
  HWY_INLINE std::uint64_t add_rest(lane* residual, const element* gradient, std::size_t size) const {
    HWY_ALIGN lane values[k_word] = {};
    HWY_ALIGN element addends[k_word] = {};
    for (std::size_t i = 0; i < size; ++i) values[i] = residual[i];
    if constexpr (Accumulates)
      for (std::size_t i = 0; i < size; ++i) addends[i] = gradient[i];
    const std::uint64_t hits = add_word(values, addends);
    if constexpr (Accumulates)
      for (std::size_t i = 0; i < size; ++i) residual[i] = values[i];
    return hits;
  }

  const accumulation& from_;
  lane factor_;
  signed_bits bias_;
  signed_bits beyond_;
  item_writer<Format> items_;
};

template <class Format>
select_result accumulate_select(const accumulation& from, magnitude_range range, void* items, std::size_t room) {
  if (from.gradient == nullptr) return selecting_pass<Format, false>(from, range, items, room).run();
  return selecting_pass<Format, true>(from, range, items, room).run();
}

// ---- top k

/// Rounds elements of the residual to the items' type. A NaN becomes the quiet NaN, or zero if NaNs are ignored.
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

  /// Searches for the top k. `least` is the hint, as bits of the items' type, or 0 if there is no hint. The first pass
  /// selects the elements whose magnitude is not below the hint.
  top_k_list run(std::uint64_t least) {
    const bool is_blind = wanted_ == 0 || least == 0;
    const magnitude_range nothing{1, 0};
    const select_result found = accumulate_select<Format>(from_, is_blind ? nothing : from_on(least), items_, room_);
    passes_ = 1;
    std::size_t candidates = found.stored;
    const bool has_all = found.counted == found.stored && (found.counted >= wanted_ || least == 1);
    if (wanted_ > 0 && !has_all) candidates = select_by_histograms();
    const kept_items kept = keep_largest<Format>(items_, candidates, wanted_);
    return {kept.count, kept.magnitude, passes_};
  }

 private:
  static constexpr std::size_t k_chunk = 256;

  magnitude_range from_on(std::uint64_t magnitude) const {
    return {least_rounding_to<Format>(magnitude), ignores_nan_ ? k_infinity_bits<lane> : k_magnitude_mask<lane>};
  }

  lane* residual() const { return static_cast<lane*>(from_.residual); }

  /// Selects among the elements [first, first + count). The gradient must have been added already. Returns the number
  /// of stored items.
  std::size_t select(std::size_t first, std::size_t count, magnitude_range range, void* items, std::size_t room) const {
    const std::uint32_t index = from_.first_index + static_cast<std::uint32_t>(first);
    return accumulate_select<Format>({residual() + first, nullptr, 1, count, index}, range, items, room).stored;
  }

  /// Selects the `wanted_` elements with the largest magnitudes, and possibly more if the capacity `room_` suffices.
  /// The gradient must have been added already. The histograms include zeros, so they contain at least wanted_
  /// elements. If the k-th magnitude is zero, fewer than wanted_ elements are nonzero, and all of these are selected.
  /// Returns the number of stored items.
  std::size_t select_by_histograms() {
    kth_magnitude kth(wanted_, 0, std::bit_width(k_magnitude_mask<element>));
    do {
      kth.narrow([&](const magnitude_bins& where, std::uint64_t* bins) HWY_ATTR { count_rounded(where, bins); });
      ++passes_;
    } while (!kth.is_found() && kth.from_low() > room_);
    ++passes_;
    if (kth.low() > 0 && kth.from_low() > room_) return select_with_ties(kth.low(), wanted_ - kth.above());
    const magnitude_range range = from_on(kth.low() > 0 ? kth.low() : 1);
    return select(0, from_.count, range, items_, room_);
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

  /// Selects all elements with greater magnitudes than `magnitude`, and the first `ties` elements with exactly this
  /// magnitude. Works in chunks, because `items_` can be too small for all elements with this magnitude.
  std::size_t select_with_ties(std::uint64_t magnitude, std::size_t ties) const {
    const magnitude_range above = from_on(magnitude + 1), all = from_on(magnitude);
    const magnitude_range* range = &all;
    std::byte chunk[k_chunk * item<Format>::size];
    std::byte* to = static_cast<std::byte*>(items_);
    for (std::size_t done = 0; done < from_.count; done += k_chunk) {
      const std::size_t size = from_.count - done < k_chunk ? from_.count - done : k_chunk;
      const std::size_t found = select(done, size, *range, chunk, k_chunk);
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

/// Sets the hint for the next call of top_k. If fewer than k elements were found, the hint becomes 1, so the first pass
/// will select all elements that are not zero. If k is 0 or the k-th magnitude is not finite, the hint is unchanged.
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

#endif  // LSCHED_OPS_SELECT_INL_H
