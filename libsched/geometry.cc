#include "libsched/geometry.h"

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

}  // namespace lsched
