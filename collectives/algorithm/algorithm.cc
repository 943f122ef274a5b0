#include "collectives/algorithm/algorithm.h"

#include <algorithm>
#include <string>

#include "collectives/algorithm/nodes.h"
#include "ops/counted.h"

namespace lsched {
namespace {

/// Nodes of three neighbours each, and ranks dealt out to three nodes: one of the last has fewer ranks.
std::vector<rank> nodes_of_three(rank size, bool is_dealt) {
  std::vector<rank> nodes;
  for (rank r = 0; r < size; ++r) nodes.push_back(is_dealt ? r % 3 : r / 3);
  return nodes;
}

}  // namespace

std::optional<failure> validate(const algorithm& what, world place, const shape& data, const activation& starts) {
  if (auto why = validate(*what.of, what.needs, place, data, starts)) return why;
  if (place.size < 2 || data.tensors.size() <= what.most_tensors) return std::nullopt;
  const std::size_t tensors = tensors_of(data).size();
  if (tensors <= what.most_tensors) return std::nullopt;
  return failure{status::constraint, std::string(what.of->name) + "/" + std::string(what.name) + " takes " +
                                         counted(what.most_tensors, "tensor") + " at most, not " +
                                         std::to_string(tensors) + ": choose another algorithm, or \"auto\""};
}

std::vector<shape> variants_of(const algorithm& what, rank size, const shape& data) {
  std::vector<shape> all{data};
  const auto add = [&](auto change) {
    shape& it = all.emplace_back(data);
    change(it);
    if (!what.of->has_owners) return;
    const auto last = static_cast<rank>(ranks_of_smallest(nodes_of(it, size)) - 1);
    it.root = std::min(it.root, last);
  };
  if (what.looks_at.segment) add([](shape& it) { it.segment = 1; });
  if (what.looks_at.segment) add([](shape& it) { it.segment = 3; });
  if (what.looks_at.radix) add([](shape& it) { it.radix = 2; });
  if (what.looks_at.radix) add([](shape& it) { it.radix = 3; });
  if (what.looks_at.nodes) add([&](shape& it) { it.nodes = nodes_of_three(size, false); });
  if (what.looks_at.nodes) add([&](shape& it) { it.nodes = nodes_of_three(size, true); });
  if (what.looks_at.buckets && data.count > 0)
    add([](shape& it) { it.buckets = {it.count / 3, 0, it.count - it.count / 3}; });
  if (what.looks_at.tensors && data.count > 0) {
    add([](shape& it) { it.tensors = {{0, it.count / 3}, {it.count / 3, it.count - it.count / 3}}; });
    if (!what.of->activates)  // with gaps
      add([](shape& it) { it.tensors = {{0, 0}, {it.count / 4, it.count / 2}, {it.count - 1, 0}, {it.count - 1, 1}}; });
    add([](shape& it) {
      for (std::uint64_t i = 0; i < it.count; ++i) it.tensors.push_back({i, 1});
    });
  }
  if (what.looks_at.is_visible) add([](shape& it) { it.is_visible = false; });
  if (what.looks_at.is_visible && what.looks_at.segment) add([](shape& it) { it.is_visible = false, it.segment = 1; });
  return all;
}

std::uint64_t bytes_of(std::uint64_t count, const shape& data) { return saturating_product(count, size_of(data.type)); }

}  // namespace lsched
