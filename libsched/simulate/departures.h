// Rendezvous sends whose bytes are leaving: for each rank a list, by the time at which the send ends.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "libsched/simulate/loggops.h"
#include "ops/base.h"

namespace lsched {

/// The lists of all ranks, in one pool. A rank keeps the head of its list.
template <class Time>
class departures {
 public:
  using head = std::uint32_t;
  static constexpr head k_none = ~0u;

  struct departure {
    Time end{};
    op_id send = k_no_op;
    head next = k_none;  ///< a later one of the same rank; of an entry that is free, the next free one
  };

  void add(head& first, const Time& end, op_id send) {
    head entry = free_;
    if (entry == k_none) {
      entry = static_cast<head>(pool_.size());
      pool_.emplace_back();
    } else {
      free_ = pool_[entry].next;
    }
    head* before = &first;
    while (*before != k_none && instant_of(pool_[*before].end) <= instant_of(end)) before = &pool_[*before].next;
    pool_[entry] = {end, send, *before};
    *before = entry;
  }

  bool has_ended(head first, picoseconds now) const { return first != k_none && instant_of(pool_[first].end) <= now; }

  departure take(head& first) {
    const departure taken = pool_[first];
    pool_[first].next = free_;
    free_ = std::exchange(first, taken.next);
    return taken;
  }

  std::size_t memory() const { return pool_.capacity() * sizeof(departure); }

 private:
  std::vector<departure> pool_;
  head free_ = k_none;
};

}  // namespace lsched
