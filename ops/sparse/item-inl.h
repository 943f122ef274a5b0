// Items, and numbers one at a time: what the kernels of sparse vectors share. Compiled once for each SIMD target;
// include it only from code that is itself written for ops that Highway re-includes.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ops/elementwise/format-inl.h"
#include "ops/sparse/item.h"

#if defined(LSCHED_OPS_ITEM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LSCHED_OPS_ITEM_INL_H
#undef LSCHED_OPS_ITEM_INL_H
#else
#define LSCHED_OPS_ITEM_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lsched {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Which bits of an element of a format, or of a lane, are its magnitude.
template <class Number>
inline constexpr bits_type<Number> k_magnitude_mask = static_cast<bits_type<Number>>(~bits_type<Number>{0}) >> 1;
template <class Lane>
inline constexpr bits_type<Lane> k_infinity_bits = sizeof(Lane) == 4 ? 0x7F800000U : 0x7FF0000000000000U;

template <class Number>
HWY_INLINE bits_type<Number> magnitude_of(Number value) {
  return std::bit_cast<bits_type<Number>>(value) & k_magnitude_mask<Number>;
}

/// Rounds one number to a format. (As a vector of one lane, bf16 takes so long that memory has to wait.)
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

/// An item in memory, wherever it lies.
template <class Format>
struct item {
  using element = typename Format::element;
  static constexpr std::size_t size = sizeof(std::uint32_t) + sizeof(element);

  std::uint32_t index;
  element value;

  static HWY_INLINE std::uint32_t index_at(const std::byte* from) {
    std::uint32_t it;
    hwy::CopyBytes<sizeof it>(from, &it);
    return it;
  }
  static HWY_INLINE element value_at(const std::byte* from) {
    element it;
    hwy::CopyBytes<sizeof it>(from + sizeof(std::uint32_t), &it);
    return it;
  }
  static HWY_INLINE item load(const std::byte* from) { return {index_at(from), value_at(from)}; }
  HWY_INLINE void store(std::byte* to) const {
    hwy::CopyBytes<sizeof index>(&index, to);
    hwy::CopyBytes<sizeof value>(&value, to + sizeof index);
  }
};

/// What nobody can predict had better not be a branch, and compilers like branches.
template <class Bits>
HWY_INLINE Bits if_true(bool condition, Bits bits) {
  return static_cast<Bits>(-static_cast<Bits>(condition)) & bits;
}

/// A list, item by item.
template <class Format, class Visit>
HWY_INLINE void for_each_item(const void* items, std::size_t count, const Visit& visit) {
  const auto* from = static_cast<const std::byte*>(items);
  for (const std::byte* const end = from + count * item<Format>::size; from != end; from += item<Format>::size)
    visit(item<Format>::load(from));
}

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lsched
HWY_AFTER_NAMESPACE();

#endif  // LSCHED_OPS_ITEM_INL_H
