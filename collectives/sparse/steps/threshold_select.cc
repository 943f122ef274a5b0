#include "collectives/sparse/steps/threshold_select.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/elementwise/elementwise.h"
#include "ops/sparse/sparse.h"

namespace lsched {
namespace {

/// A magnitude of items as one of their residual. Of NaN it is that of some NaN.
std::uint64_t widened(dtype type, std::uint64_t magnitude) {
  std::uint64_t bits = 0;
  find_convert(type, residual_of(type))(&magnitude, 1, 1, &bits);
  return bits;
}

}  // namespace

/// Rounding is monotone: what is not above the number before the threshold does not round to the threshold. All NaN of
/// residuals are one NaN of items.
magnitude_range threshold_select::range_from(std::uint64_t threshold) const {
  const std::uint64_t infinity = magnitude_in(residual_of(of_.type), std::numeric_limits<double>::infinity());
  magnitude_range range{.least = std::min(widened(of_.type, threshold - 1), infinity) + 1};
  if (of_.nans == nan_policy::ignore) range.most = infinity;
  return range;
}

std::uint64_t threshold_select::select(const accumulation& from, std::uint64_t threshold, std::byte* items) {
  const std::uint64_t room = most_selected(of_), least = std::max<std::uint64_t>(1, threshold);
  const select_result found = sparse_kernels_of(of_.type).accumulate_select(from, range_from(least), items, room);
  std::uint64_t count = found.stored;
  if (found.counted > found.stored) {
    const accumulation rest{.residual = from.residual, .count = from.count, .first_index = from.first_index};
    count = sparse_kernels_of(of_.type).top_k(rest, room, of_.nans, items, room, hint_).count;
  }
  return sparse_kernels_of(of_.type).filter_items(items, count, least - 1, 0, items);
}

}  // namespace lsched
