#include "collectives/partial.h"

#include "collectives/allreduce.h"
#include "collectives/allreduce_tree.h"

namespace lsched {

constinit const constraints k_partial_allreduce_constraints{
    .activates = true,
    .in_place = false,
    .summary = "any P and count; starts by its policy, absent ranks contribute null; then as allreduce"};

result<schedule_ptr> partial_allreduce(world place, const shape& data, const activation& starts) {
  return make_collective(k_partial_allreduce_constraints, place, data, starts, "partial_allreduce/recursive_doubling",
                         add_allreduce);
}

result<schedule_ptr> partial_allreduce_tree(world place, const shape& data, const activation& starts) {
  return make_collective(k_partial_allreduce_constraints, place, data, starts, "partial_allreduce/tree",
                         add_allreduce_tree);
}

}  // namespace lsched
