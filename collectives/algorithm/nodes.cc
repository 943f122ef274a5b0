#include "collectives/algorithm/nodes.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace lsched {

std::vector<node> nodes_of(const shape& data, rank size) {
  std::vector<node> nodes;
  if (data.nodes.empty()) {
    nodes.emplace_back(static_cast<std::size_t>(size));
    std::iota(nodes[0].begin(), nodes[0].end(), 0);
  }
  std::map<rank, std::size_t> places;
  for (rank r = 0; !data.nodes.empty() && r < size; ++r) {
    const auto [place, is_new] = places.emplace(data.nodes[static_cast<std::size_t>(r)], nodes.size());
    if (is_new) nodes.emplace_back();
    nodes[place->second].push_back(r);
  }
  return nodes;
}

bool is_one_node(const shape& data, rank size) { return size > 1 && nodes_of(data, size).size() == 1; }

std::size_t ranks_of_smallest(const std::vector<node>& nodes) {
  return std::ranges::min_element(nodes, {}, &node::size)->size();
}

node_place place_of(const std::vector<node>& nodes, rank self) {
  const auto own =
      std::ranges::find_if(nodes, [&](const node& ranks) { return std::ranges::binary_search(ranks, self); });
  return {static_cast<std::size_t>(own - nodes.begin()),
          static_cast<std::size_t>(std::ranges::lower_bound(*own, self) - own->begin())};
}

}  // namespace lsched
