#include "ops/adasum/non_finite.h"

#include "ops/magnitude.h"

namespace lsched {
namespace {

bool begins_with_nan(const std::byte* data, const tensor& one, dtype type) {
  return magnitude_at(type, data + one.begin * size_of(type)) > infinite_magnitude(type);
}

bool has_non_finite(const std::byte* data, const tensor& one, dtype type) {
  for (std::uint64_t i = one.begin; i < one.end(); ++i)
    if (magnitude_at(type, data + i * size_of(type)) >= infinite_magnitude(type)) return true;
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
