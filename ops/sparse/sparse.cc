// The kernels of sparse.h. Highway includes this file once for each SIMD target. The code must not call the standard
// library at run time (elementwise.cc explains why).
#include "ops/sparse/sparse.h"

#include <array>

#include "ops/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/sparse/sparse.cc"
#include "hwy/foreach_target.h"
#include "ops/sparse/select-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lsched {
namespace {
namespace HWY_NAMESPACE {

template <class Format>
consteval sparse_kernels kernels_of_format() {
  return {.accumulate_select = &accumulate_select<Format>,
          .top_k = &top_k<Format>,
          .keep_largest = &keep_largest<Format>,
          .count_magnitudes = &count_magnitudes<Format>,
          .filter_items = &filter_items<Format>,
          .scatter = &scatter<Format>,
          .scatter_add = &scatter_add<Format>,
          .gather_touched = &gather_touched<Format>,
          .settle = &settle<Format>};
}

/// Returns the kernels for f16, bf16, f32 and f64, in the order of the enumerators of dtype.
const std::array<sparse_kernels, 4>& table() {
  static constexpr std::array<sparse_kernels, 4> all{kernels_of_format<half>(), kernels_of_format<brain>(),
                                                     kernels_of_format<plain<float>>(),
                                                     kernels_of_format<plain<double>>()};
  return all;
}

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lsched
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lsched {
namespace {
HWY_EXPORT(table);
}  // namespace

const sparse_kernels& sparse_kernels_of(dtype type) {
  static constexpr sparse_kernels none{};
  if (!is_floating(type)) return none;
  return HWY_DYNAMIC_DISPATCH(table)()[static_cast<std::size_t>(type) - static_cast<std::size_t>(dtype::f16)];
}

}  // namespace lsched
#endif
