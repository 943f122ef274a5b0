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

std::vector<rank> knomial::children_of(rank r) const {
  std::vector<rank> children;
  for (std::int64_t step = 1; step < size_ && r / step % radix_ == 0; step *= radix_)
    for (std::int64_t digit = 1; digit < radix_ && r + digit * step < size_; ++digit)
      children.push_back(static_cast<rank>(r + digit * step));
  return children;
}

// The least rank with d digits, none of them zero, is 11…1.
int knomial::depth() const {
  int digits = 0;
  for (std::int64_t least = 1; least < size_; least = least * radix_ + 1) ++digits;
  return digits;
}

}  // namespace lsched
