// Caches the chosen algorithm and the schedule of each request, for later equal requests.
#pragma once

#include <list>
#include <mutex>
#include <string>

#include "collectives/selection.h"

namespace lsched {

struct cached_schedule {
  choice chosen;
  schedule_ptr program;
};

/// The cache of one rank of a world. The key consists of collective, algorithm, shape and activation. The selection
/// never changes, so it is not part of the key. Evicts the least recently used entries. Thread-safe.
class schedule_cache {
 public:
  static constexpr std::size_t k_most_entries = 64;
  static constexpr std::size_t k_most_ops = std::size_t{1} << 20;  ///< maximum number of ops of all entries together

  schedule_cache(world place, selection by) : place_(place), by_(std::move(by)) {}

  /// Returns the result of select() and its schedule, from the cache if possible.
  result<cached_schedule> get(std::string_view collective, std::string_view wanted, const shape& data,
                              const activation& starts = {});

  world place() const { return place_; }
  const selection& by() const { return by_; }

 private:
  struct entry {
    std::string collective, wanted;
    shape data;
    activation starts;
    cached_schedule made;
  };
  void keep(entry one);

  const world place_;
  const selection by_;
  std::mutex guard_;
  std::list<entry> entries_;  ///< most recently used first
  std::size_t ops_ = 0;
};

}  // namespace lsched
