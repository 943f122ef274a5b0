// Finding the right kernel: the tables of all SIMD targets, and the one that ops/target.h chooses.
//
// The arithmetic is in linear-inl.h, which Highway includes here once for each target.
#include "ops/adasum/linear.h"

#include "ops/adasum/linear_table.h"
#include "ops/target.h"

#define HWY_TARGET_INCLUDE "ops/adasum/linear-inl.h"
#include "hwy/foreach_target.h"
#include "ops/adasum/linear-inl.h"

namespace lsched {
namespace {

template <std::int64_t Target>
struct linear_table_of {
  static constexpr const linear_table* pointer = k_linear_table_of_target<Target>;
};
constexpr auto k_linear_tables = tables_of_targets<linear_table_of>();

linear_kernels kernels_of(dtype type) {
  if (!is_floating(type) || type > dtype::f64) return {};
  return (*k_linear_tables[current_target()])[static_cast<std::size_t>(type) - static_cast<std::size_t>(dtype::f16)];
}

}  // namespace

dot_norms_fn find_dot_norms(dtype type) { return kernels_of(type).dot_norms; }
kernel_fn find_adaptive(kernel what, dtype type) {
  const linear_kernels all = kernels_of(type);
  return what == kernel::dot_norms ? all.dot_norms_call : all.adasum_call;
}
scaled_add_fn find_scaled_add(dtype type) { return kernels_of(type).scaled_add; }

}  // namespace lsched
