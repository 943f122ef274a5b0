#include "libsched/schedule/geometry.h"

#include <algorithm>

namespace lsched {

std::vector<rank> knomial::children_of(rank r) const {
  std::vector<rank> children(child_count(r));
  for (std::uint32_t i = 0; i < children.size(); ++i) children[i] = child_of(r, i);
  return children;
}

// The least rank with d digits, none of them zero, is 11…1.
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
