// Generators for tests of single algorithms. Each function calls the generator that has the same name in the registry.
#pragma once

#include "collectives/registry.h"

namespace lsched {

using generator = result<schedule_ptr> (*)(world place, const shape& data, const activation& starts);

inline result<schedule_ptr> allreduce_recursive_doubling(world place, const shape& data, const activation& by = {}) {
  return find("allreduce", "recursive_doubling")->generate(place, data, by);
}
inline result<schedule_ptr> allreduce_tree(world place, const shape& data, const activation& by = {}) {
  return find("allreduce", "tree")->generate(place, data, by);
}
inline result<schedule_ptr> allreduce_flat(world place, const shape& data, const activation& by = {}) {
  return find("allreduce", "flat")->generate(place, data, by);
}
inline result<schedule_ptr> allreduce_direct(world place, const shape& data, const activation& by = {}) {
  return find("allreduce", "direct")->generate(place, data, by);
}
inline result<schedule_ptr> partial_allreduce(world place, const shape& data, const activation& by) {
  return find("partial_allreduce", "recursive_doubling")->generate(place, data, by);
}
inline result<schedule_ptr> partial_allreduce_tree(world place, const shape& data, const activation& by) {
  return find("partial_allreduce", "tree")->generate(place, data, by);
}
inline result<schedule_ptr> barrier_dissemination(world place) {
  return find("barrier", "dissemination")->generate(place, {});
}

}  // namespace lsched
