#include "ops/adasum/non_finite.h"

#include <cstring>

namespace lsched {
namespace {

/// Of a floating type: its exponent's bits, which are all set where a value is not finite, and those below.
struct float_bits {
  std::uint64_t exponent;
  std::uint64_t fraction;
};

constexpr float_bits bits_of(dtype type) {
  switch (type) {
    case dtype::f16: return {0x7C00, 0x03FF};
    case dtype::bf16: return {0x7F80, 0x007F};
    case dtype::f32: return {0x7F800000, 0x007FFFFF};
    default: return {0x7FF0000000000000, 0x000FFFFFFFFFFFFF};
  }
}

std::uint64_t element_at(const std::byte* data, std::uint64_t i, dtype type) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, data + i * size_of(type), size_of(type));  // little-endian, as every machine we run on
  return bits;
}

bool begins_with_nan(const std::byte* data, const tensor& one, dtype type) {
  const auto [exponent, fraction] = bits_of(type);
  const std::uint64_t bits = element_at(data, one.begin, type);
  return (bits & exponent) == exponent && (bits & fraction) != 0;
}

bool has_non_finite(const std::byte* data, const tensor& one, dtype type) {
  const std::uint64_t exponent = bits_of(type).exponent;
  for (std::uint64_t i = one.begin; i < one.begin + one.count; ++i)
    if ((element_at(data, i, type) & exponent) == exponent) return true;
  return false;
}

}  // namespace

std::uint64_t find_non_finite(const std::byte* data, dtype type, std::span<const tensor> tensors, non_finite_rule rule,
                              std::uint8_t* is_non_finite) {
  const auto shows = rule == non_finite_rule::any_element ? has_non_finite : begins_with_nan;
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool is_found = tensors[i].count > 0 && shows(data, tensors[i], type);
    number += is_found ? 1 : 0;
    if (is_non_finite != nullptr) is_non_finite[i] = is_found ? 1 : 0;
  }
  return number;
}

}  // namespace lsched
