#include "collectives/remark.h"

#include "collectives/algorithm/nodes.h"

namespace lsched {

std::string_view remark_on(const algorithm& how, rank size, const shape& data) {
  if (!how.of->adapts || !how.looks_at.nodes || !is_one_node(data, size)) return {};
  if (how.of->has_owners) return "node_adasum on one node is what its owner has, at all ranks, not an adaptive sum";
  return "adasum/two_level on one node is the mean of its ranks, not an adaptive sum";
}

}  // namespace lsched
