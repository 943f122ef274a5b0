// The ranks of a world in the order in which they begin.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "libsched/simulate/skew.h"

namespace lsched {

/// Walks the ranks by start time, then by number. Keeps nothing where that is the order of their numbers.
class start_order {
 public:
  start_order(const start_times& starts, rank size) : starts_(starts), size_(size), next_time_(starts(0)) {
    bool is_sorted = true;
    for (rank r = 1; r < size && is_sorted; ++r) is_sorted = starts(r) >= starts(r - 1);
    if (is_sorted) return;
    std::vector<std::pair<picoseconds, rank>> entries;
    entries.reserve(static_cast<std::size_t>(size));
    for (rank r = 0; r < size; ++r) entries.emplace_back(starts(r), r);
    std::sort(entries.begin(), entries.end());
    order_.reserve(entries.size());
    for (const auto& [time, r] : entries) order_.push_back(r);
    next_time_ = entries.front().first;
  }

  bool is_over() const { return taken_ == size_; }
  /// When the next rank begins.
  picoseconds next_time() const { return next_time_; }
  rank take() {
    const rank taken = next();
    if (++taken_ < size_) next_time_ = starts_(next());
    return taken;
  }

  std::size_t memory() const { return order_.capacity() * sizeof(rank); }

 private:
  rank next() const { return order_.empty() ? taken_ : order_[static_cast<std::size_t>(taken_)]; }

  const start_times& starts_;
  rank size_;
  rank taken_ = 0;
  picoseconds next_time_;
  std::vector<rank> order_;
};

}  // namespace lsched
