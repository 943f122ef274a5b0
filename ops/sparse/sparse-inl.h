// The table of all kernels of sparse vectors, compiled once for each SIMD target. Nothing here, or in what it includes,
// calls into the standard library at run time, as in elementwise-inl.h.

#include "ops/sparse/item_list-inl.h"
#include "ops/sparse/select-inl.h"
#include "ops/sparse/sparse_sum-inl.h"
#include "ops/sparse/sparse_table.h"
#include "ops/sparse/top_k-inl.h"

#if defined(LSCHED_OPS_SPARSE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LSCHED_OPS_SPARSE_INL_H
#undef LSCHED_OPS_SPARSE_INL_H
#else
#define LSCHED_OPS_SPARSE_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lsched {
namespace {
namespace HWY_NAMESPACE {

template <class Format>
consteval sparse_kernels sparse_kernels_of() {
  return {.accumulate_select = &accumulate_select<Format>,
          .select = &select<Format>,
          .keep_largest = &keep_largest<Format>,
          .top_k = &top_k<Format>,
          .count_magnitudes = &count_magnitudes<Format>,
          .filter_items = &filter_items<Format>,
          .scatter = &scatter<Format>,
          .scatter_add = &scatter_add<Format>,
          .gather_touched = &gather_touched<Format>,
          .merge_add = &merge_add<Format>,
          .settle = &settle<Format>};
}

inline constexpr sparse_table k_sparse_table{sparse_kernels_of<half>(), sparse_kernels_of<brain>(),
                                             sparse_kernels_of<plain<float>>(), sparse_kernels_of<plain<double>>()};

}  // namespace HWY_NAMESPACE
}  // namespace

template <>
inline constexpr const sparse_table* k_sparse_table_of_target<HWY_TARGET> = &HWY_NAMESPACE::k_sparse_table;

}  // namespace lsched
HWY_AFTER_NAMESPACE();

#endif  // LSCHED_OPS_SPARSE_INL_H
