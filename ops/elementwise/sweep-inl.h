// Walking over elements by vectors. Compiled once for each SIMD target; include it only from code that is itself
// written for ops that Highway re-includes.

#include <cstddef>

#include "hwy/highway.h"

#if defined(LSCHED_OPS_SWEEP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LSCHED_OPS_SWEEP_INL_H
#undef LSCHED_OPS_SWEEP_INL_H
#else
#define LSCHED_OPS_SWEEP_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lsched {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// What remains after the full vectors: one vector of each smaller power of two, widest first. Partial
/// vectors touch exactly their own elements, so nothing outside the buffers is read or written.
template <std::size_t Width, class Lane, class Step>
HWY_INLINE void sweep_rest(std::size_t done, std::size_t count, const Step& step) {
  if constexpr (Width > 0) {
    const hn::CappedTag<Lane, Width> lanes;
    if (count - done >= hn::Lanes(lanes)) {
      step(lanes, done);
      done += hn::Lanes(lanes);
    }
    sweep_rest<Width / 2, Lane>(done, count, step);
  }
}

/// Calls step(lanes, first) so that the vectors [first, first + lanes) cover [0, count) exactly, in order.
template <class Lane, class Step>
HWY_INLINE void sweep(std::size_t count, const Step& step) {
  const hn::ScalableTag<Lane> lanes;
  const std::size_t width = hn::Lanes(lanes);
  std::size_t done = 0;
  for (; count - done >= 4 * width; done += 4 * width) {
    step(lanes, done);
    step(lanes, done + width);
    step(lanes, done + 2 * width);
    step(lanes, done + 3 * width);
  }
  for (; count - done >= width; done += width) step(lanes, done);
  sweep_rest<hn::MaxLanes(hn::ScalableTag<Lane>()) / 2, Lane>(done, count, step);
}

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lsched
HWY_AFTER_NAMESPACE();

#endif  // LSCHED_OPS_SWEEP_INL_H
