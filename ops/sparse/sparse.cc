// Finding the right kernel: the tables of all SIMD targets, and the one that ops/target.h chooses.
//
// The arithmetic is in sparse-inl.h, which Highway includes here once for each target.
#include <algorithm>
#include <cstring>

#include "ops/sparse/sparse_table.h"
#include "ops/target.h"

#define HWY_TARGET_INCLUDE "ops/sparse/sparse-inl.h"
#include "hwy/foreach_target.h"
#include "ops/sparse/sparse-inl.h"

namespace lsched {
namespace {

template <std::int64_t Target>
struct sparse_table_of {
  static constexpr const sparse_table* pointer = k_sparse_table_of_target<Target>;
};
constexpr auto k_sparse_tables = tables_of_targets<sparse_table_of>();

sparse_kernels kernels_of(dtype type) {
  if (!is_floating(type) || type > dtype::f64) return {};
  return (*k_sparse_tables[current_target()])[static_cast<std::size_t>(type) - static_cast<std::size_t>(dtype::f16)];
}

}  // namespace

accumulate_select_fn find_accumulate_select(dtype type) { return kernels_of(type).accumulate_select; }
select_fn find_select(dtype type) { return kernels_of(type).select; }
keep_largest_fn find_keep_largest(dtype type) { return kernels_of(type).keep_largest; }
top_k_fn find_top_k(dtype type) { return kernels_of(type).top_k; }
count_magnitudes_fn find_count_magnitudes(dtype type) { return kernels_of(type).count_magnitudes; }
filter_items_fn find_filter_items(dtype type) { return kernels_of(type).filter_items; }
scatter_fn find_scatter(dtype type) { return kernels_of(type).scatter; }
scatter_add_fn find_scatter_add(dtype type) { return kernels_of(type).scatter_add; }
gather_touched_fn find_gather_touched(dtype type) { return kernels_of(type).gather_touched; }
merge_add_fn find_merge_add(dtype type) { return kernels_of(type).merge_add; }
settle_fn find_settle(dtype type) { return kernels_of(type).settle; }

void count_positions(dtype type, const void* items, std::size_t count, std::uint64_t base, std::uint64_t width,
                     std::uint64_t* bins, std::size_t n_bins) {
  const auto* from = static_cast<const std::byte*>(items);
  std::uint64_t bin = 0, begin = 0;
  for (std::size_t i = 0; i < count; ++i, from += item_size(type)) {
    std::uint32_t index = 0;
    std::memcpy(&index, from, sizeof index);
    const std::uint64_t position = base + index;
    if (position - begin >= width) bin = position / width, begin = bin * width;  // positions ascend: not often
    ++bins[std::min<std::uint64_t>(bin, n_bins - 1)];
  }
}

}  // namespace lsched
