#include "ops/adasum/non_finite.h"

#include <cstring>

namespace lsched {
namespace {

/// Magnitude of infinity: its bits without the sign. Those of NaN are greater.
constexpr std::uint64_t infinity_of(dtype type) {
  switch (type) {
    case dtype::f16: return 0x7C00;
    case dtype::bf16: return 0x7F80;
    case dtype::f32: return 0x7F800000;
    default: return 0x7FF0000000000000;
  }
}

std::uint64_t magnitude_of(const std::byte* data, std::uint64_t i, dtype type) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, data + i * size_of(type), size_of(type));  // little-endian, as every machine we run on
  return bits & ((std::uint64_t{1} << (8 * size_of(type) - 1)) - 1);
}

bool begins_with_nan(const std::byte* data, const tensor& one, dtype type) {
  return magnitude_of(data, one.begin, type) > infinity_of(type);
}

bool has_non_finite(const std::byte* data, const tensor& one, dtype type) {
  for (std::uint64_t i = one.begin; i < one.end(); ++i)
    if (magnitude_of(data, i, type) >= infinity_of(type)) return true;
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
