#include "libsched/schedule/geometry.h"

#include <algorithm>

namespace lsched {

std::vector<rank> knomial::children_of(rank r) const {
  std::vector<rank> children;
  for (std::int64_t step = 1; r + step < size_ && r / step % radix_ == 0; step *= radix_)
    for (std::int64_t digit = 1; digit < radix_ && r + digit * step < size_; ++digit)
      children.push_back(static_cast<rank>(r + digit * step));
  return children;
}

// The depth is the maximum number of nonzero digits of a rank. The smallest rank with d nonzero digits is 11…1.
int knomial::depth() const {
  int digits = 0;
  for (std::int64_t least = 1; least < size_; least = least * radix_ + 1) ++digits;
  return digits;
}

std::vector<rank> spread_tree::children_of(rank r) const {
  std::vector<rank> children;
  if (r <= root_)
    for (const rank distance : below_.children_of(root_ - r)) children.push_back(root_ - distance);
  if (r >= root_)
    for (const rank distance : above_.children_of(r - root_)) children.push_back(root_ + distance);
  return children;
}

int spread_tree::depth() const { return std::max(below_.depth(), above_.depth()); }

}  // namespace lsched
