#include "collectives/geometry.h"

namespace lsched {

// Both sums are taken in 64 bits: self + distance may pass 2^31 in the largest worlds.

rank ring_after(rank self, rank distance, rank size) {
  return static_cast<rank>((std::int64_t{self} + distance) % size);
}

rank ring_before(rank self, rank distance, rank size) {
  return static_cast<rank>((std::int64_t{self} + size - distance) % size);
}

rank fold::across(rank r, int k) const { return real_of(virtual_of(r) ^ (rank{1} << k)); }

}  // namespace lsched
