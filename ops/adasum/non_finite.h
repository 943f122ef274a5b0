// Detection of tensors in a result that are not finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/adasum/tensor.h"
#include "ops/base.h"
#include "ops/op.h"

namespace lsched {

/// Criterion for a tensor that is not finite.
enum class non_finite_rule : std::uint8_t {
  any_element,        ///< an element is NaN or infinite
  first_element_nan,  ///< the first element is NaN; enough if all elements were multiplied by a NaN
};

/// Returns the number of tensors of `data`, elements of a floating type, that are not finite. Unless is_non_finite is
/// null, sets is_non_finite[i] to 1 for these tensors and to 0 for others. A tensor without elements is finite.
std::uint64_t find_non_finite(const std::byte* data, dtype type, std::span<const tensor> tensors, non_finite_rule rule,
                              std::uint8_t* is_non_finite);

}  // namespace lsched
