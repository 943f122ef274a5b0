// The pass of ops/select.h. Compiled once for each SIMD target; include it only from code that is itself written for
// ops that Highway re-includes.
//
// Elements go by words of 64: vectors tell which of them are selected as 64 bits, and items are then written one by
// one, by the bits that are set. So nothing is ever written behind the last item, and where few are selected, as is the
// rule, this is as fast as compressing vectors (whose store to memory is slow on some CPUs).

#include <cstddef>
#include <cstdint>

#include "ops/item-inl.h"
#include "ops/select.h"

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

/// The least magnitude of a residual that rounds to a given one of a format, or above: everything from there on does,
/// since rounding is monotone. Above all magnitudes if none does.
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

/// Bit i is lane i.
template <class D>
HWY_INLINE std::uint64_t bits_of_mask(D lanes, hn::Mask<D> mask) {
  bits_of_size<(hn::MaxLanes(D()) > 32 ? 8 : hn::MaxLanes(D()) > 16 ? 4 : 2)> bits = 0;
  if constexpr (hn::MaxLanes(D()) <= 8) {
    std::uint8_t few = 0;
    hn::StoreMaskBits(lanes, mask, &few);
    bits = few;
  } else {
    std::uint8_t bytes[sizeof bits];
    hn::StoreMaskBits(lanes, mask, bytes);
    hwy::CopyBytes<sizeof bits>(bytes, &bits);
  }
  return bits;
}

/// Where items go.
template <class Format>
class item_writer {
 public:
  HWY_INLINE item_writer(void* items, std::size_t room) : to_(static_cast<std::byte*>(items)), room_(room) {}

  /// `hits` says which of the elements from `values` on are selected.
  HWY_INLINE void append(std::uint64_t hits, const typename Format::lane* values, std::uint32_t first_index) {
    counted_ += hwy::PopCount(hits);
    for (; hits != 0 && stored_ < room_; hits &= hits - 1, ++stored_) {
      const std::size_t i = hwy::Num0BitsBelowLS1Bit_Nonzero64(hits);
      item<Format>{first_index + static_cast<std::uint32_t>(i), to_element<Format>(values[i])}.store(to_);
      to_ += item<Format>::size;
    }
  }

  HWY_INLINE std::size_t stored() const { return stored_; }
  HWY_INLINE std::size_t counted() const { return counted_; }

 private:
  std::byte* to_;
  std::size_t room_;
  std::size_t stored_ = 0;
  std::size_t counted_ = 0;
};

/// One pass over a residual that, if Accumulates, is written.
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
    below_ = static_cast<signed_bits>(is_empty ? k_magnitude_mask<lane> : least - 1);
    most_ = static_cast<signed_bits>(most);
  }

  HWY_INLINE selection run() {
    auto* residual = static_cast<lane*>(from_.residual);
    const auto* gradient = static_cast<const element*>(from_.gradient);
    for (std::size_t done = 0; done < from_.count; done += k_selection_block)
      add_block(residual + done, Accumulates ? gradient + done : nullptr, done);
    return {items_.stored(), items_.counted(), sum_, has_nan_};
  }

 private:
  using signed_bits = std::make_signed_t<bits_type<lane>>;
  using D = hn::ScalableTag<lane>;
  using V = hn::VFromD<D>;
  static constexpr std::size_t k_word = 64;
  static constexpr std::size_t k_sums = 32;
  static constexpr std::size_t k_lanes = hn::MaxLanes(D());
  static_assert(k_sums % k_lanes == 0 && k_selection_block % k_word == 0);

  struct vector_sums {
    V of[k_sums / k_lanes];
  };

  HWY_INLINE void add_block(lane* residual, const element* gradient, std::size_t done) {
    const D lanes;
    const std::size_t size = from_.count - done < k_selection_block ? from_.count - done : k_selection_block;
    const std::uint32_t index = from_.first_index + static_cast<std::uint32_t>(done);
    vector_sums sums;
    HWY_UNROLL(32)
    for (V& sum : sums.of) sum = hn::Zero(lanes);
    std::size_t i = 0;
    for (; size - i >= k_word; i += k_word) {
      const std::uint64_t hits = add_word(residual + i, gradient + i, sums);
      if (hits != 0) items_.append(hits, residual + i, index + static_cast<std::uint32_t>(i));
    }
    if (i < size) add_rest(residual + i, gradient + i, size - i, index + static_cast<std::uint32_t>(i), sums);
    HWY_ALIGN lane stored[k_sums];
    HWY_UNROLL(32)
    for (std::size_t v = 0; v < k_sums / k_lanes; ++v) hn::Store(sums.of[v], lanes, stored + v * k_lanes);
    add_sum(stored, residual, size);
  }

  /// Answers which are selected.
  HWY_INLINE std::uint64_t add_word(lane* residual, const element* gradient, vector_sums& sums) const {
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
      V& sum = sums.of[i / k_lanes % (k_sums / k_lanes)];
      sum = hn::Add(sum, absolute);
      const auto magnitude = hn::BitCast(bits, absolute);
      const auto is_hit = hn::AndNot(hn::Gt(magnitude, hn::Set(bits, most_)), hn::Gt(magnitude, hn::Set(bits, below_)));
      hits |= bits_of_mask(lanes, hn::RebindMask(lanes, is_hit)) << i;
    }
    return hits;
  }

  /// Fewer than a word, filled up with zeros, which nobody selects.
  HWY_INLINE void add_rest(lane* residual, const element* gradient, std::size_t size, std::uint32_t index,
                           vector_sums& sums) {
    HWY_ALIGN lane values[k_word] = {};
    HWY_ALIGN element addends[k_word] = {};
    for (std::size_t i = 0; i < size; ++i) values[i] = residual[i];
    if constexpr (Accumulates)
      for (std::size_t i = 0; i < size; ++i) addends[i] = gradient[i];
    const std::uint64_t hits = add_word(values, addends, sums);
    if constexpr (Accumulates)
      for (std::size_t i = 0; i < size; ++i) residual[i] = values[i];
    items_.append(hits, values, index);
  }

  HWY_INLINE void add_sum(const lane* stored, const lane* residual, std::size_t size) {
    double wide[k_sums];
    for (std::size_t i = 0; i < k_sums; ++i) wide[i] = static_cast<double>(stored[i]);
    for (std::size_t left = k_sums / 2; left > 0; left /= 2)
      for (std::size_t i = 0; i < left; ++i) wide[i] += wide[i + left];
    if (magnitude_of(wide[0]) < k_infinity_bits<double>)
      sum_ += wide[0];
    else
      sum_ += sum_of_finite(residual, size);
  }

  HWY_INLINE double sum_of_finite(const lane* residual, std::size_t size) {
    double sum = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const bits_type<lane> magnitude = magnitude_of(residual[i]);
      if (magnitude < k_infinity_bits<lane>) sum += static_cast<double>(std::bit_cast<lane>(magnitude));
      if (magnitude > k_infinity_bits<lane>) has_nan_ = true;
    }
    return sum;
  }

  const accumulation& from_;
  lane factor_;
  signed_bits below_;
  signed_bits most_;
  item_writer<Format> items_;
  double sum_ = 0;
  bool has_nan_ = false;
};

template <class Format>
selection accumulate_select(const accumulation& from, magnitude_range range, void* items, std::size_t room) {
  if (from.gradient == nullptr) return selecting_pass<Format, false>(from, range, items, room).run();
  return selecting_pass<Format, true>(from, range, items, room).run();
}

template <class Format>
selection select(const void* residual, std::size_t count, std::uint32_t first_index, magnitude_range range, void* items,
                 std::size_t room) {
  // A pass that does not accumulate only reads.
  const accumulation from{const_cast<void*>(residual), nullptr, 1, count, first_index};
  return selecting_pass<Format, false>(from, range, items, room).run();
}

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lsched
HWY_AFTER_NAMESPACE();

#endif  // LSCHED_OPS_SELECT_INL_H
