#include "collectives/registry.h"

#include <algorithm>
#include <string>

#include "collectives/allreduce.h"
#include "collectives/allreduce_flat.h"
#include "collectives/allreduce_tree.h"
#include "collectives/barrier.h"
#include "collectives/partial.h"

namespace lsched {
namespace {

/// A collective's algorithms stand together.
const std::vector<algorithm>& table() {
  static const std::vector<algorithm> all{
      k_allreduce_recursive_doubling,
      k_allreduce_tree,
      k_allreduce_flat,
      k_barrier_dissemination,
      k_partial_allreduce_recursive_doubling,
      k_partial_allreduce_tree,
  };
  return all;
}

}  // namespace

promised_data data_of(const collective& of, rank size, const shape& data) {
  promised_data all{.type = data.type};
  for (rank r = 0; r < size; ++r) all.of.push_back(of.extents_of({.self = r, .size = size}, data));
  if (std::ranges::count(all.of, all.of.front()) == static_cast<std::ptrdiff_t>(all.of.size())) all.of.resize(1);
  return all;
}

postcondition promise_of(const algorithm& what, rank size, const shape& data, activation_policy policy) {
  postcondition promise = what.of->contents_of(size, data);
  promise.data = data_of(*what.of, size, data);
  promise.price = what.cost_of(size, data, policy);
  return promise;
}

std::span<const algorithm> algorithms() { return table(); }

const algorithm* find(std::string_view collective, std::string_view name) {
  for (const algorithm& it : table())
    if (it.of->name == collective && it.name == name) return &it;
  return nullptr;
}

result<std::vector<schedule_ptr>> generate_world(const algorithm& what, rank size, const shape& data,
                                                 const activation& starts) {
  std::vector<schedule_ptr> world;
  for (rank self = 0; self < size; ++self) {
    auto program = what.generate({self, size}, data, starts);
    if (!program) return program.error();
    world.push_back(std::move(*program));
  }
  return world;
}

}  // namespace lsched
