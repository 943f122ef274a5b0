// What one SIMD target contributes to the kernels of sparse vectors: its table of them. Internal to ops/.
#pragma once

#include <array>

#include "ops/sparse/item_list.h"
#include "ops/sparse/residual.h"
#include "ops/sparse/select.h"
#include "ops/sparse/sparse_sum.h"
#include "ops/sparse/top_k.h"

namespace lsched {

/// The kernels of one floating type.
struct sparse_kernels {
  accumulate_select_fn accumulate_select = nullptr;
  select_fn select = nullptr;
  keep_largest_fn keep_largest = nullptr;
  top_k_fn top_k = nullptr;
  count_magnitudes_fn count_magnitudes = nullptr;
  filter_items_fn filter_items = nullptr;
  scatter_fn scatter = nullptr;
  scatter_add_fn scatter_add = nullptr;
  gather_touched_fn gather_touched = nullptr;
  merge_add_fn merge_add = nullptr;
  settle_fn settle = nullptr;
};

/// f16, bf16, f32, f64: in the order of dtype.
using sparse_table = std::array<sparse_kernels, 4>;

/// The table of a Highway target bit, or nullptr where this build lacks the target. sparse-inl.h specialises it
/// once for each target it is compiled for.
template <std::int64_t Target>
inline constexpr const sparse_table* k_sparse_table_of_target = nullptr;

}  // namespace lsched
