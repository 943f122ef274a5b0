// What one SIMD target contributes to convert.h: its table of kernels. Internal to ops/.
#pragma once

#include <array>

#include "ops/elementwise/convert.h"

namespace lsched {

/// From (row) and to f16, bf16, f32, f64: in the order of dtype.
using convert_table = std::array<std::array<convert_fn, 4>, 4>;

/// The table of a Highway target bit, or nullptr where this build lacks the target. convert-inl.h specialises it
/// once for each target it is compiled for.
template <std::int64_t Target>
inline constexpr const convert_table* k_convert_table_of_target = nullptr;

}  // namespace lsched
