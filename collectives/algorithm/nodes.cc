#include "collectives/algorithm/nodes.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "libsched/postcondition/postcondition.h"

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

std::uint64_t mean_tree(const node& ranks, dtype type) {
  const std::uint64_t sum = reduced_tree(kernel::sum, type, ranks);
  return ranks.size() == 1 ? sum : divided_tree(sum, static_cast<std::uint32_t>(ranks.size()));
}

std::size_t place_on_node(const shape& data, rank self) {
  const auto own = static_cast<std::size_t>(self);
  if (data.nodes.empty()) return own;
  const auto first = data.nodes.begin();
  return static_cast<std::size_t>(std::count(first, first + self, data.nodes[own]));
}

}  // namespace lsched
