// Choices and schedules that were made before, for the next request that is the same.
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

/// Of one place in one world, with one selection, so that collective, algorithm, shape and activation are the whole
/// key. Keeps what was asked for last. Any thread.
class schedule_cache {
 public:
  static constexpr std::size_t k_most_entries = 64;
  static constexpr std::size_t k_most_ops = std::size_t{1}
                                            << 20;  ///< of all entries together; a larger one is not kept

  schedule_cache(world place, selection by) : place_(place), by_(std::move(by)) {}

  /// What select and then the generator answer, or have answered before.
  result<cached_schedule> get(std::string_view collective, std::string_view wanted, const shape& data,
                              const activation& starts = {});

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
  std::list<entry> entries_;  ///< the last used first
  std::size_t ops_ = 0;
};

}  // namespace lsched
