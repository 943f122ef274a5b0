#include "collectives/sparse/protocol/region_parts.h"

#include <algorithm>
#include <numeric>

#include "collectives/sparse/protocol/split.h"
#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

/// How many parts a region has at most, so that all of them together have no more than there are counters.
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

/// A region in parts. Of equal ones, the first and the last are divided once more, into parts each a quarter as long as
/// the next one inwards: a quarter of all parts each, 8 at most, and none that is empty.
class division {
 public:
  division(std::uint64_t width, std::uint64_t parts) : width_(width), parts_(parts) {
    for (outer_ = std::min<std::uint64_t>(parts / 4, 8);; --outer_) {
      equal_ = k_whole / (parts - 2 * outer_);
      if (outer_ == 0 || at(outermost(1)) > 0) break;
    }
  }

  /// Where part i ends, counted from where the region begins.
  std::uint64_t end(std::uint64_t i) const {
    if (parts_ == width_) return i + 1;
    const std::uint64_t before = i + 1, behind = parts_ - before;  // parts
    if (behind == 0) return width_;
    if (behind <= outer_) return at(k_whole - outermost(behind));
    return at(before <= outer_ ? outermost(before) : equal_ * (before - outer_));
  }

 private:
  static constexpr unsigned k_bits = 31;  // a width times a fraction of so many bits is below 2^63
  static constexpr std::uint64_t k_whole = std::uint64_t{1} << k_bits;

  std::uint64_t at(std::uint64_t fraction) const { return width_ * fraction >> k_bits; }
  /// All of so many parts at an end.
  std::uint64_t outermost(std::uint64_t parts) const { return equal_ >> 2 * (outer_ + 1 - parts); }

  std::uint64_t width_, parts_, outer_, equal_;
};

/// a * b / c, rounded down; a <= c, b <= 2^32. Of large numbers approximately.
std::uint64_t in_proportion(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  for (; c >> 31 != 0; c /= 2) a /= 2;
  return a * b / c;
}

}  // namespace

std::uint64_t drift_bins(const sparse_problem& of) {
  constexpr std::uint64_t k_of_region = 16, k_of_all = 8192;
  const auto regions = static_cast<std::uint64_t>(of.place.size);
  if (of.boundaries == boundary_rule::averaged) return 0;
  return std::max(regions, std::min(k_of_region * regions, k_of_all));
}

region_parts::region_parts(const sparse_problem& of) : type_(of.type), ends_(drift_bins(of)) {}

void region_parts::divide(std::span<const std::uint64_t> boundaries) {
  if (ends_.empty()) return;
  const std::uint64_t most = most_parts(boundaries, ends_.size());
  parts_ = 0;
  for (std::size_t region = 0; region + 1 < boundaries.size(); ++region) {
    const std::uint64_t width = boundaries[region + 1] - boundaries[region], parts = std::min(width, most);
    if (parts == 0) continue;
    const division of(width, parts);
    for (std::uint64_t i = 0; i < parts; ++i) ends_[parts_++] = boundaries[region] + of.end(i);
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
  const std::uint64_t total = std::reduce(sums.begin(), sums.end(), std::uint64_t{0});
  if (total == 0) return;
  const cut wanted(total, boundaries.size() - 1);
  std::uint64_t below = 0, begin = 0;  // items in parts before this one; where it begins
  std::size_t part = 0;
  for (std::size_t i = 1; i + 1 < boundaries.size(); ++i) {
    const std::uint64_t items = std::min(wanted.begin(i), total - 1);
    for (; below + sums[part] <= items; ++part) {
      below += sums[part];
      begin = ends_[part];
    }
    boundaries[i] = begin + in_proportion(items - below, ends_[part] - begin, sums[part]);
  }
}

}  // namespace lsched
