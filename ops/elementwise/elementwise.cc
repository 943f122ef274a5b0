// Finding the right kernel: the tables of all SIMD targets, and the one that ops/target.h chooses.
//
// The arithmetic is in elementwise-inl.h, which Highway includes here once for each target.
#include "ops/elementwise/elementwise.h"

#include "ops/target.h"

#define HWY_TARGET_INCLUDE "ops/elementwise/elementwise-inl.h"
#include "hwy/foreach_target.h"
#include "ops/elementwise/elementwise-inl.h"

namespace lsched {
namespace {

template <std::int64_t Target>
struct table_of {
  static constexpr const target_table* pointer = k_table_of_target<Target>;
};
constexpr auto k_tables = tables_of_targets<table_of>();

const target_table& current_table() { return *k_tables[current_target()]; }

}  // namespace

reduce_fn find_reduce(kernel what, dtype type) {
  if (!is_reduction(what) || what > kernel::bxor || type > dtype::f64) return nullptr;
  return current_table().reduce[place_of(what)][column_of(type)];
}

kernel_fn find_elementwise(kernel what, dtype type) {
  const target_table& all = current_table();
  return (what == kernel::divide ? all.divide_calls : all.reduce_calls[place_of(what)])[column_of(type)];
}

divide_fn find_divide(dtype type) { return type > dtype::f64 ? nullptr : current_table().divide[column_of(type)]; }

}  // namespace lsched
