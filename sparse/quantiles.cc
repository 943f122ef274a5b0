#include "sparse/quantiles.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "libsched/geometry.h"
#include "ops/item_list.h"
#include "sparse/split.h"

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
/// below is cut at i/b of its width. (No rank has more items in a bin than the bin is wide, so the product is below
/// P width^2, at most 2^48.)
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

/// a * b / c, rounded down; a <= c, b <= 2^32. Of large numbers approximately.
std::uint64_t part_of(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  for (; c >> 31 != 0; c /= 2) a /= 2;
  return a * b / c;
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
  count_positions(of.type, selected.items, selected.count, 0, bin_width(of), bins.data(), bins.size());
}

void place_boundaries(const sparse_problem& of, std::span<const std::uint64_t> sums,
                      std::span<std::uint64_t> boundaries) {
  if (of.boundaries == boundary_rule::averaged)
    place_averaged(of, sums, boundaries);
  else
    place_pooled(of, sums, boundaries);
}

std::uint64_t drift_bins(const sparse_problem& of) {
  constexpr std::uint64_t k_parts = 16, k_total = 4096;
  const std::uint64_t size = size_of_world(of);
  return of.boundaries == boundary_rule::averaged ? 0 : size * std::clamp<std::uint64_t>(k_total / size, 1, k_parts);
}

namespace {

constexpr unsigned k_offset_bits = 16;

/// Where part i of so many begins, of a region of 2^16. Half of the parts are equal. The other half divides the two
/// outermost of these, each a quarter as long as the one before: what is dense may end just behind a boundary, and be
/// part of a region that is empty otherwise. Of less than four parts, all are equal.
std::uint64_t part_offset(std::uint64_t parts, std::uint64_t i) {
  constexpr std::uint64_t k_whole = 1 << k_offset_bits;
  const std::uint64_t cuts = parts / 4, length = k_whole / (parts - 2 * cuts);
  if (i == 0) return 0;
  if (i <= cuts) return length >> 2 * (cuts + 1 - i);
  if (i >= parts - cuts) return k_whole - (length >> 2 * (i - (parts - cuts) + 1));
  return length * (i - cuts);
}

std::uint64_t part_begin(std::span<const std::uint64_t> boundaries, std::uint64_t parts, std::uint64_t bin) {
  const std::uint64_t region = bin / parts, begin = boundaries[region];
  return begin + ((boundaries[region + 1] - begin) * part_offset(parts, bin % parts) >> k_offset_bits);
}

}  // namespace

void count_drift(const sparse_problem& of, item_list selected, std::span<const std::uint64_t> boundaries,
                 std::span<std::uint64_t> bins) {
  std::fill(bins.begin(), bins.end(), 0);
  if (bins.empty()) return;
  const std::uint64_t parts = bins.size() / size_of_world(of);
  std::uint64_t from = 0;
  for (std::uint64_t bin = 0; bin < bins.size(); ++bin) {
    const std::uint64_t end = bin + 1 < bins.size()
                                  ? items_below(of.type, selected, from, part_begin(boundaries, parts, bin + 1))
                                  : selected.count;
    bins[bin] = end - from;
    from = end;
  }
}

void follow_drift(const sparse_problem& of, std::span<const std::uint64_t> sums, std::span<const std::uint64_t> now,
                  std::span<std::uint64_t> next) {
  std::copy(now.begin(), now.end(), next.begin());
  const std::uint64_t total = std::reduce(sums.begin(), sums.end(), std::uint64_t{0});
  if (total == 0) return;
  const std::uint64_t parts = sums.size() / size_of_world(of);
  const cut wanted(total, size_of_world(of));
  std::uint64_t below = 0;  // items in bins before this one
  std::size_t bin = 0;
  for (std::size_t i = 1; i + 1 < next.size(); ++i) {
    const std::uint64_t items = std::min(wanted.begin(i), total - 1);
    while (below + sums[bin] <= items) below += sums[bin++];
    const std::uint64_t begin = part_begin(now, parts, bin);
    const std::uint64_t end = bin + 1 < sums.size() ? part_begin(now, parts, bin + 1) : of.count;
    next[i] = begin + part_of(items - below, end - begin, sums[bin]);
  }
}

}  // namespace lsched
