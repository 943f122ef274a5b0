#include "collectives/sparse/steps/regions.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

/// Rule `pooled`: returns the number of elements of the vector that one bin of position_bins() covers, at least 1.
std::uint64_t bin_width(const sparse_problem& problem) {
  const std::uint64_t wanted = std::min<std::uint64_t>(256 * problem.ranks(), 16384);
  return std::max<std::uint64_t>(1, problem.count / wanted + (problem.count % wanted != 0 ? 1 : 0));
}

/// The item at a quantile is the first item of the next region, so its position is the boundary.
void count_own_quantiles(const sparse_problem& problem, item_list selected, std::span<std::uint64_t> bins) {
  const cut parts(selected.count, problem.ranks());
  for (std::size_t i = 1; i < bins.size(); ++i) {
    bins[i - 1] = index_at(problem.type, selected.items, std::min(parts.begin(i), selected.count - 1));
  }
  bins.back() = 1;
}

/// Returns the largest limit for the number of parts of a region, such that all regions together have at most
/// `counters` parts.
std::uint64_t most_parts(std::span<const std::uint64_t> boundaries, std::uint64_t counters) {
  std::uint64_t fitting = 1, beyond = counters + 1;
  while (beyond - fitting > 1) {
    const std::uint64_t tried = std::midpoint(fitting, beyond);
    std::uint64_t parts = 0;
    for (std::size_t i = 0; i + 1 < boundaries.size(); ++i) parts += std::min(boundaries[i + 1] - boundaries[i], tried);
    (parts <= counters ? fitting : beyond) = tried;
  }
  return fitting;
}

/// The division of a region into parts (regions.h). The region is first divided into equal parts. The first and the
/// last of these are divided again, into parts that get shorter towards the ends of the region. Each part is a quarter
/// as long as its inner neighbor. Each end has a quarter of all parts, but at most 8, and no part is empty.
class division {
 public:
  division(std::uint64_t width, std::uint64_t parts) : width_(width), parts_(parts) {
    for (outer_ = std::min<std::uint64_t>(parts / 4, 8);; --outer_) {
      equal_ = k_whole / (parts - 2 * outer_);
      if (outer_ == 0 || at(outermost(1)) > 0) break;
    }
  }

  /// Returns the end of part i, relative to the start of the region.
  std::uint64_t end(std::uint64_t i) const {
    if (parts_ == width_) return i + 1;
    const std::uint64_t before = i + 1, behind = parts_ - before;  // numbers of parts before and behind this end
    if (behind == 0) return width_;
    if (behind <= outer_) return at(k_whole - outermost(behind));
    return at(before <= outer_ ? outermost(before) : equal_ * (before - outer_));
  }

 private:
  static constexpr unsigned k_bits = 31;  // so that a width times a fraction is below 2^63
  static constexpr std::uint64_t k_whole = std::uint64_t{1} << k_bits;

  std::uint64_t at(std::uint64_t fraction) const { return width_ * fraction >> k_bits; }
  /// Returns the fraction of the region that the outermost `parts` parts cover.
  std::uint64_t outermost(std::uint64_t parts) const { return equal_ >> 2 * (outer_ + 1 - parts); }

  std::uint64_t width_, parts_, outer_, equal_;
};

/// Returns a * b / c, rounded down; a <= c, b <= 2^32. For large numbers, the result is approximate.
std::uint64_t in_proportion(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  for (; c >> 31 != 0; c /= 2) a /= 2;
  return a * b / c;
}

/// Sets the boundaries so that all regions have nearly the same number of items. Does nothing if there are no items.
/// `sums` has the number of items in each part of the vector, in the order of the parts. A boundary may lie inside a
/// part of b items. If i of these items must precede the boundary, the boundary is at i/b of the part's width.
template <class End>
void place_quantiles(std::span<const std::uint64_t> sums, const End& end_of, std::span<std::uint64_t> boundaries) {
  const std::uint64_t total = std::reduce(sums.begin(), sums.end(), std::uint64_t{0});
  if (total == 0) return;
  const cut wanted(total, boundaries.size() - 1);
  std::uint64_t below = 0, begin = 0;  // number of items before this part; start of this part
  std::size_t part = 0;
  for (std::size_t i = 1; i + 1 < boundaries.size(); ++i) {
    const std::uint64_t items = std::min(wanted.begin(i), total - 1);
    for (; below + sums[part] <= items; ++part) {
      below += sums[part];
      begin = end_of(part);
    }
    boundaries[i] = begin + in_proportion(items - below, end_of(part) - begin, sums[part]);
  }
}

}  // namespace

// --- positions -------------------------------------------------------------------------------------------------------

std::uint64_t position_bins(const sparse_problem& problem) {
  if (problem.boundaries == boundary_rule::averaged) return problem.ranks();
  const std::uint64_t width = bin_width(problem);
  return problem.count / width + (problem.count % width != 0 ? 1 : 0);
}

void count_positions(const sparse_problem& problem, item_list selected, std::span<std::uint64_t> bins) {
  std::fill(bins.begin(), bins.end(), 0);
  if (selected.count == 0) return;
  if (problem.boundaries == boundary_rule::averaged) return count_own_quantiles(problem, selected, bins);
  const std::uint64_t width = bin_width(problem);
  std::uint64_t bin = 0;
  for (std::uint64_t i = 0; i < selected.count; ++i) {
    const std::uint64_t position = index_at(problem.type, selected.items, i);
    if (position - bin * width >= width) bin = position / width;  // rarely true, because positions ascend
    ++bins[bin];
  }
}

void place_boundaries(const sparse_problem& problem, std::span<const std::uint64_t> sums,
                      std::span<std::uint64_t> boundaries) {
  const cut equal(problem.count, problem.ranks());
  for (std::size_t i = 0; i < boundaries.size(); ++i) boundaries[i] = equal.begin(i);
  if (std::ranges::all_of(sums, [](std::uint64_t sum) { return sum == 0; })) return;
  const auto end_of = [&, width = bin_width(problem)](std::size_t bin) {
    return std::min((bin + 1) * width, problem.count);
  };
  if (problem.boundaries == boundary_rule::pooled) return place_quantiles(sums, end_of, boundaries);
  for (std::size_t i = 1; i + 1 < boundaries.size(); ++i) boundaries[i] = sums[i - 1] / sums.back();
}

// --- drift -----------------------------------------------------------------------------------------------------------

std::uint64_t drift_bins(const sparse_problem& problem) {
  constexpr std::uint64_t k_of_region = 16, k_of_all = 8192;
  if (problem.boundaries == boundary_rule::averaged) return 0;
  return std::max(problem.ranks(), std::min(k_of_region * problem.ranks(), k_of_all));
}

region_parts::region_parts(const sparse_problem& problem) : type_(problem.type), ends_(drift_bins(problem)) {}

void region_parts::divide(std::span<const std::uint64_t> boundaries) {
  if (ends_.empty()) return;
  const std::uint64_t most = most_parts(boundaries, ends_.size());
  parts_ = 0;
  for (std::size_t region = 0; region + 1 < boundaries.size(); ++region) {
    const std::uint64_t width = boundaries[region + 1] - boundaries[region], parts = std::min(width, most);
    if (parts == 0) continue;
    const division divided(width, parts);
    for (std::uint64_t i = 0; i < parts; ++i) ends_[parts_++] = boundaries[region] + divided.end(i);
  }
  std::fill(ends_.begin() + static_cast<std::ptrdiff_t>(parts_), ends_.end(), boundaries.back());
}

void region_parts::count(item_list selected, std::span<std::uint64_t> counters) const {
  std::fill(counters.begin(), counters.end(), 0);
  std::uint64_t before = 0;
  for (std::size_t part = 0; part < parts_; ++part) {
    const std::uint64_t below = items_below(type_, selected, before, ends_[part]);
    counters[part] = below - before;
    before = below;
  }
}

void region_parts::move(std::span<const std::uint64_t> sums, std::span<std::uint64_t> boundaries) const {
  place_quantiles(
      sums, [this](std::size_t part) { return ends_[part]; }, boundaries);
}

// --- lists for owners ------------------------------------------------------------------------------------------------

std::uint64_t capacity_at(const sparse_problem& problem, rank distance, round_no round) {
  const auto size = problem.ranks(), place = static_cast<std::uint64_t>(distance);
  const std::uint64_t k = most_items(problem), each = k / size, more = k % size;
  if (size > 1 && k == 1) return round % size == place ? 1 : 0;
  if (place == 0) return each + (more > 0 ? 1 : 0);
  if (more < 2) return each;
  // The other `more - 1` additional items are assigned to consecutive distances, and in the next round to the following
  // distances.
  const std::uint64_t others = size - 1, turns = more - 1, first = round % others * turns % others;
  return each + ((place - 1 + others - first) % others < turns ? 1 : 0);
}

std::uint64_t items_below(dtype type, item_list list, std::uint64_t from, std::uint64_t position) {
  std::uint64_t below = from, step = 1;  // the first `below` items have lower indices than `position`
  while (step <= list.count - below && index_at(type, list.items, below + step - 1) < position) {
    below += step;
    step *= 2;
  }
  // Second invariant: the item at place `end` in the list, and all items after it, are not below the position.
  std::uint64_t end = std::min(list.count, below + step - 1);
  while (below < end) {
    const std::uint64_t middle = below + (end - below) / 2;
    if (index_at(type, list.items, middle) < position)
      below = middle + 1;
    else
      end = middle;
  }
  return below;
}

std::uint64_t split(const sparse_problem& problem, round_no round, item_list selected,
                    std::span<const std::uint64_t> boundaries, std::byte* items, std::span<std::uint64_t> lengths) {
  const std::size_t bytes = item_size(problem.type);
  std::uint64_t begin = 0, written = 0;
  for (rank owner = 0; owner < problem.place.size; ++owner) {
    const auto region = static_cast<std::size_t>(owner);
    const std::uint64_t end = items_below(problem.type, selected, begin, boundaries[region + 1]);
    std::uint64_t count = end - begin, room = count;
    if (problem.capacity == capacity_policy::defer)
      room = capacity_at(problem, ring_before(owner, problem.place.self, problem.place.size), round);
    std::byte* const to = items + written * bytes;
    if (count > 0 && room > 0) std::memcpy(to, selected.items + begin * bytes, count * bytes);
    if (count > room) count = sparse_kernels_of(problem.type).keep_largest(to, count, room).count;
    lengths[region] = count;
    written += count;
    begin = end;
  }
  return written;
}

}  // namespace lsched
