// Which tensors of a result are not finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/adasum/tensor.h"
#include "ops/base.h"
#include "ops/op.h"

namespace lsched {

/// How a tensor shows that it is not finite.
enum class non_finite_rule : std::uint8_t {
  any_element,        ///< one of its elements is NaN or infinite
  first_element_nan,  ///< it was multiplied by a NaN: its elements are all NaN, and the first one is looked at
};

/// How many of the tensors of `data`, elements of a floating type, are not finite; is_non_finite[i], unless that is
/// null, becomes 1 for those and 0 for others. A tensor without elements is finite.
std::uint64_t find_non_finite(const std::byte* data, dtype type, std::span<const tensor> tensors, non_finite_rule rule,
                              std::uint8_t* is_non_finite);

}  // namespace lsched
