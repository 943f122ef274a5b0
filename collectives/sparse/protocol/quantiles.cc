#include "collectives/sparse/protocol/quantiles.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "libsched/schedule/geometry.h"
#include "ops/sparse/sparse.h"

namespace lsched {
namespace {

std::uint64_t size_of_world(const sparse_problem& of) { return static_cast<std::uint64_t>(of.place.size); }

/// Of a bin, at least 1.
std::uint64_t bin_width(const sparse_problem& of) {
  const std::uint64_t wanted = std::min<std::uint64_t>(256 * size_of_world(of), 16384);
  return std::max<std::uint64_t>(1, of.count / wanted + (of.count % wanted != 0 ? 1 : 0));
}

void place_equally(std::uint64_t count, std::span<std::uint64_t> boundaries) {
  const cut parts(count, boundaries.size() - 1);
  for (std::size_t i = 0; i < boundaries.size(); ++i) boundaries[i] = parts.begin(i);
}

/// A boundary has as many items below it as a cut of all of them into P runs has. A bin of b items of which i belong
/// below is cut at i/b of its width. (No rank has more items in a bin than the bin is wide, which is 2^18 at most, so
/// the product is at most P 2^36.)
void place_pooled(const sparse_problem& of, std::span<const std::uint64_t> bins, std::span<std::uint64_t> boundaries) {
  const std::uint64_t total = std::reduce(bins.begin(), bins.end(), std::uint64_t{0}), width = bin_width(of);
  if (total == 0) return place_equally(of.count, boundaries);
  const cut parts(total, size_of_world(of));
  std::uint64_t below = 0;  // items in bins before this one
  std::size_t bin = 0;
  for (std::size_t i = 1; i + 1 < boundaries.size(); ++i) {
    const std::uint64_t wanted = std::min(parts.begin(i), total - 1);
    while (below + bins[bin] <= wanted) below += bins[bin++];
    const std::uint64_t first = bin * width, wide = std::min(width, of.count - first);
    boundaries[i] = first + (wanted - below) * wide / bins[bin];
  }
  boundaries.front() = 0;
  boundaries.back() = of.count;
}

void place_averaged(const sparse_problem& of, std::span<const std::uint64_t> sums,
                    std::span<std::uint64_t> boundaries) {
  const std::uint64_t ranks = sums.back();
  if (ranks == 0) return place_equally(of.count, boundaries);
  for (std::size_t i = 1; i + 1 < boundaries.size(); ++i) boundaries[i] = sums[i - 1] / ranks;
  boundaries.front() = 0;
  boundaries.back() = of.count;
}

/// The item that is the quantile is the first of the region behind the boundary.
void count_own_quantiles(const sparse_problem& of, item_list selected, std::span<std::uint64_t> bins) {
  const cut parts(selected.count, size_of_world(of));
  for (std::size_t i = 1; i < bins.size(); ++i) {
    std::uint32_t index;
    const std::uint64_t at = std::min(parts.begin(i), selected.count - 1);
    std::memcpy(&index, selected.items + at * item_size(of.type), sizeof index);
    bins[i - 1] = index;
  }
  bins.back() = 1;
}

}  // namespace

std::uint64_t position_bins(const sparse_problem& of) {
  if (of.boundaries == boundary_rule::averaged) return size_of_world(of);
  const std::uint64_t width = bin_width(of);
  return of.count / width + (of.count % width != 0 ? 1 : 0);
}

void count_positions(const sparse_problem& of, item_list selected, std::span<std::uint64_t> bins) {
  std::fill(bins.begin(), bins.end(), 0);
  if (selected.count == 0) return;
  if (of.boundaries == boundary_rule::averaged) return count_own_quantiles(of, selected, bins);
  const std::uint64_t width = bin_width(of);
  std::uint64_t bin = 0;
  for (std::uint64_t i = 0; i < selected.count; ++i) {
    const std::uint64_t position = index_at(of.type, selected.items, i);
    if (position - bin * width >= width) bin = position / width;  // positions ascend: not often
    ++bins[bin];
  }
}

void place_boundaries(const sparse_problem& of, std::span<const std::uint64_t> sums,
                      std::span<std::uint64_t> boundaries) {
  if (of.boundaries == boundary_rule::averaged)
    place_averaged(of, sums, boundaries);
  else
    place_pooled(of, sums, boundaries);
}

}  // namespace lsched
