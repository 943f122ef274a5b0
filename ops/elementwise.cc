// Finding the right kernel: the tables of all SIMD targets, and the one that ops/target.h chooses.
//
// The arithmetic is in ops/elementwise-inl.h, which Highway includes here once for each target.
#include "ops/elementwise.h"

#include <cmath>
#include <limits>

#include "ops/target.h"

#define HWY_TARGET_INCLUDE "ops/elementwise-inl.h"
#include "hwy/foreach_target.h"
#include "ops/elementwise-inl.h"

namespace lsched {
namespace {

constexpr std::array<std::string_view, 24> k_kernel_names{
    "none",        "copy",   "sum",     "prod",    "min",   "max",       "land",   "lor",
    "lxor",        "band",   "bor",     "bxor",    "user",  "dot_norms", "adasum", "gram",
    "gram_adasum", "divide", "measure", "lay_out", "split", "fold",      "join",   "derive"};
static_assert(k_kernel_names.size() == static_cast<std::size_t>(kernel::derive) + 1);

template <std::int64_t Target>
struct table_of {
  static constexpr const target_table* pointer = k_table_of_target<Target>;
};
constexpr auto k_tables = tables_of_targets<table_of>();

const target_table& current_table() { return *k_tables[current_target()]; }

/// The largest T need not be a double, but one more than it is a power of two, and always is.
template <class T>
T nearest(double value) {
  using limits = std::numeric_limits<T>;
  constexpr double lowest = static_cast<double>(limits::min());
  constexpr double beyond = 2.0 * static_cast<double>(T{1} << (limits::digits - 1));
  const double rounded = std::nearbyint(value);
  if (rounded >= beyond) return limits::max();
  if (rounded <= lowest) return limits::min();
  return std::isnan(rounded) ? T{0} : static_cast<T>(rounded);
}

template <class T>
void scale_integers(void* x, std::size_t count, double factor) {
  T* element = static_cast<T*>(x);
  for (std::size_t i = 0; i < count; ++i) element[i] = nearest<T>(static_cast<double>(element[i]) * factor);
}

constexpr std::array<scale_fn, 5> k_scale_integers{&scale_integers<std::int8_t>, &scale_integers<std::uint8_t>,
                                                   &scale_integers<std::int32_t>, &scale_integers<std::int64_t>,
                                                   &scale_integers<std::uint64_t>};
static_assert(k_scale_integers.size() == column_of(dtype::f16));

}  // namespace

std::string_view name_of(kernel what) {
  const auto index = static_cast<std::size_t>(what);
  return index < k_kernel_names.size() ? k_kernel_names[index] : "unknown";
}

reduce_fn find_reduce(kernel what, dtype type) {
  if (!is_reduction(what) || what > kernel::bxor || type > dtype::f64) return nullptr;
  return current_table().reduce[row_of(what)][column_of(type)];
}

divide_fn find_divide(dtype type) { return type > dtype::f64 ? nullptr : current_table().divide[column_of(type)]; }

void scale(dtype type, void* x, std::size_t count, double factor) {
  // Integers beyond 2^53 are no doubles: a mean over one rank must not change them.
  if (factor == 1.0) return;
  const std::size_t column = column_of(type);
  const scale_fn run = is_floating(type) ? current_table().scale[column] : k_scale_integers[column];
  run(x, count, factor);
}

}  // namespace lsched
