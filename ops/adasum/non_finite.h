// Finds tensors with elements that are not finite (NaN or infinite) in the result of an adaptive sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/adasum/tensor.h"
#include "ops/base.h"
#include "ops/op.h"

namespace lsched {

/// Rule by which a tensor counts as not finite.
enum class non_finite_rule : std::uint8_t {
  any_element,        ///< an element is NaN or infinite
  first_element_nan,  ///< the first element is NaN; sufficient if every NaN spreads to the whole tensor (adasum.h)
};

/// Returns the number of tensors in `data` that are not finite. `type` must be a floating type. If is_non_finite is not
/// null, sets is_non_finite[i] to 1 if tensor i is not finite, else to 0. A tensor without elements is finite.
std::uint64_t find_non_finite(const std::byte* data, dtype type, std::span<const tensor> tensors, non_finite_rule rule,
                              std::uint8_t* is_non_finite);

}  // namespace lsched
