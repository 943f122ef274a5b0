// Finding the right kernel: the tables of all SIMD targets, and the one that ops/target.h chooses.
//
// The arithmetic is in convert-inl.h, which Highway includes here once for each target.
#include "ops/elementwise/convert.h"

#include "ops/elementwise/convert_table.h"
#include "ops/target.h"

#define HWY_TARGET_INCLUDE "ops/elementwise/convert-inl.h"
#include "hwy/foreach_target.h"
#include "ops/elementwise/convert-inl.h"

namespace lsched {
namespace {

template <std::int64_t Target>
struct convert_table_of {
  static constexpr const convert_table* pointer = k_convert_table_of_target<Target>;
};
constexpr auto k_convert_tables = tables_of_targets<convert_table_of>();

std::size_t place_of(dtype type) { return static_cast<std::size_t>(type) - static_cast<std::size_t>(dtype::f16); }

}  // namespace

convert_fn find_convert(dtype from, dtype to) {
  if (!is_floating(from) || !is_floating(to)) return nullptr;
  return (*k_convert_tables[current_target()])[place_of(from)][place_of(to)];
}

}  // namespace lsched
