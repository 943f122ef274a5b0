#include "collectives/sparse/steps/list_sum.h"

namespace lsched {

list_sum::list_sum(dtype type, std::uint64_t region)
    : region_(region),
      scatter_add_(sparse_kernels_of(type).scatter_add),
      gather_touched_(sparse_kernels_of(type).gather_touched),
      sums_(region * size_of(residual_of(type))),
      touched_(bitmap_words(region)) {}

std::uint64_t list_sum::add(std::span<const item_list> lists, std::byte* items) {
  for (const item_list& it : lists) scatter_add_(it.items, it.count, sums_.data(), touched_.data());
  return gather_touched_(sums_.data(), touched_.data(), region_, items);
}

}  // namespace lsched
