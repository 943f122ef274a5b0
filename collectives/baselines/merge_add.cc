// This file is compiled once for each SIMD target, because Highway includes it repeatedly.
#include "collectives/baselines/merge_add.h"

#include <array>

#include "ops/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/baselines/merge_add.cc"
#include "hwy/foreach_target.h"
#include "ops/sparse/lists-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lsched {
namespace {
namespace HWY_NAMESPACE {

template <class Format>
HWY_INLINE std::byte* copy_items(const std::byte* from, const std::byte* end, std::byte* to) {
  for (; from != end; from += item<Format>::size, to += item<Format>::size) item<Format>::load(from).store(to);
  return to;
}

template <class Format>
HWY_NOINLINE std::byte* drop_zeros(std::byte* items, std::byte* end) {
  std::byte* to = items;
  for (const std::byte* from = items; from != end; from += item<Format>::size) {
    const auto one = item<Format>::load(from);
    one.store(to);
    to += (magnitude_of(one.value) != 0) * item<Format>::size;
  }
  return to;
}

/// An item, and an item with the same index whose value is to be added.
struct addition {
  std::byte* to;
  const std::byte* addend;
};

/// Adds the value of `addend` to the item. Returns true if the sum is zero.
template <class Format>
HWY_INLINE bool add_to_item(const addition& pair) {
  auto sum = item<Format>::load(pair.to);
  sum.value = to_element<Format>(to_lane<Format>(sum.value) + to_lane<Format>(item<Format>::value_at(pair.addend)));
  sum.store(pair.to);
  return magnitude_of(sum.value) == 0;
}

/// Items with a common index are first copied from `lower`. The values of `upper` are added to these items later, in
/// batches.
template <class Format>
std::size_t merge_add(const void* lower, std::size_t lower_count, const void* upper, std::size_t upper_count,
                      void* items) {
  std::byte* const begin = static_cast<std::byte*>(items);
  std::byte* to = begin;
  bool has_zeros = false;
  common_items<addition> common;
  const auto add = [&](const addition& it) HWY_ATTR { has_zeros |= add_to_item<Format>(it); };
  list_walk<Format> walk(lower, lower_count, upper, upper_count);
  walk.run([&](const std::byte* one, const std::byte* other, std::uint32_t of_one, std::uint32_t of_other) HWY_ATTR {
    item<Format>::load(of_one <= of_other ? one : other).store(to);
    common.note({to, other}, of_one == of_other);
    to += item<Format>::size;
    if (common.is_full()) common.flush(add);
  });
  common.flush(add);
  to = copy_items<Format>(walk.lower(), walk.lower_end(), to);
  to = copy_items<Format>(walk.upper(), walk.upper_end(), to);
  if (has_zeros) to = drop_zeros<Format>(begin, to);
  return static_cast<std::size_t>(to - begin) / item<Format>::size;
}

/// Returns the functions in the order of dtype: f16, bf16, f32, f64.
const std::array<merge_add_fn, 4>& merge_adds() {
  static constexpr std::array<merge_add_fn, 4> all{&merge_add<half>, &merge_add<brain>, &merge_add<plain<float>>,
                                                   &merge_add<plain<double>>};
  return all;
}

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lsched
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lsched {
namespace {
HWY_EXPORT(merge_adds);
}  // namespace

merge_add_fn find_merge_add(dtype type) {
  return HWY_DYNAMIC_DISPATCH(merge_adds)()[static_cast<std::size_t>(type) - static_cast<std::size_t>(dtype::f16)];
}

}  // namespace lsched
#endif
