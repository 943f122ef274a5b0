#include "collectives/partial.h"

#include <utility>

#include "collectives/activation.h"
#include "collectives/allreduce.h"
#include "collectives/allreduce_tree.h"

namespace lsched {

constinit const constraints k_partial_allreduce_constraints{
    .activates = true,
    .in_place = false,
    .summary = "any P and count; starts by its policy, absent ranks contribute null; then as allreduce"};

result<schedule_ptr> make_partial(world place, const shape& data, const activation& starts, std::string name,
                                  add_collective body) {
  builder to(place, std::move(name));
  const buffer_id input = to.input(data.type, data.count);
  const buffer_id output = to.output(data.type, data.count);
  const fragment awake = add_activation(to, starts.policy, data.what, input, extent::imm(data.count));
  const fragment collective = body(to, data, input, output, awake.exit);
  to.set_exit(collective.exit);
  if (collective.holding) to.declare_holding();
  to.set_activation(starts);
  to.declare_synchronising();
  return to.compile();
}

result<schedule_ptr> partial_allreduce(world place, const shape& data, const activation& starts) {
  if (const auto why = objection(k_partial_allreduce_constraints, place, data, starts)) return *why;
  return make_partial(place, data, starts, "partial_allreduce/recursive_doubling", add_allreduce);
}

result<schedule_ptr> partial_allreduce_tree(world place, const shape& data, const activation& starts) {
  if (const auto why = objection(k_partial_allreduce_constraints, place, data, starts)) return *why;
  return make_partial(place, data, starts, "partial_allreduce/tree", add_allreduce_tree);
}

}  // namespace lsched
