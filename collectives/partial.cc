#include "collectives/partial.h"

#include <algorithm>

#include "collectives/activation.h"
#include "collectives/allreduce.h"
#include "collectives/allreduce_flat.h"
#include "collectives/allreduce_rabenseifner.h"
#include "collectives/allreduce_tree.h"
#include "collectives/allreduce_two_level.h"
#include "collectives/direct.h"
#include "collectives/multiplying.h"
#include "collectives/ring.h"

namespace lsched {
namespace {

failure argument(std::string text) { return {.code = status::argument, .text = std::move(text)}; }

// --- composition ---------------------------------------------------------------------------------------------------

/// Copies the ops of a schedule into a builder that has its buffers.
class transcript {
 public:
  transcript(builder& to, const schedule& body) : to_(to), body_(body), ids_(body.ops().size()) {
    for (const late_extent& it : body.lates()) lates_.push_back(to.late(it.bound));
  }

  /// What nothing in the body precedes comes after `entry`. Answers the op that is the body's exit.
  op_id write(op_id entry) {
    std::vector<std::uint32_t> causes(ids_.size(), 0);
    for (op_id id = 0; id < ids_.size(); ++id)
      for (const op_id next : body_.successors(id)) ++causes[next];
    for (op_id id = 0; id < ids_.size(); ++id) ids_[id] = copy(body_.ops()[id]);
    for (op_id id = 0; id < ids_.size(); ++id) {
      if (causes[id] == 0) to_.dep(entry, ids_[id]);
      for (const op_id next : body_.successors(id)) to_.dep(ids_[id], ids_[next]);
      if (body_.ops()[id].need < causes[id]) to_.set_need(ids_[id], body_.ops()[id].need);
    }
    return ids_[body_.exit()];
  }

 private:
  op_id copy(const op& it) {
    const extent count = it.count.is_late() ? lates_[it.count.index()] : it.count;
    switch (it.kind) {
      case op_kind::nop: return to_.nop();
      case op_kind::send: return to_.send(it.peer, it.tag, it.a, count);
      case op_kind::recv: return to_.recv(it.peer, it.tag, it.c, count);
      case op_kind::signal_send: return to_.signal_send(it.peer, it.tag);
      case op_kind::signal_recv: return to_.signal_recv(it.peer, it.tag);
      case op_kind::capture: return to_.capture(it.what, it.c, count);
      case op_kind::compute:
        return it.what == kernel::copy ? to_.copy(it.a, it.c, count) : to_.reduce(it.what, it.a, it.b, it.c, count);
    }
    return k_no_op;
  }

  builder& to_;
  const schedule& body_;
  std::vector<op_id> ids_;  ///< by op of the body
  std::vector<extent> lates_;
};

// --- costs ---------------------------------------------------------------------------------------------------------

/// Signals are exact. Hops are at most what a call takes to the rank it reaches last and what the body takes from
/// there; less where no rank that is far from the caller begins the body's longest chain.
template <const algorithm& of>
cost cost_of_partial(rank size, const shape& data, const activation& starts) {
  cost price = of.cost_of(size, data, {});
  if (!starts.is_woken()) return price;
  const auto [most, least, hops] = price_of(starts, size);
  price.signals = most;
  price.signals_of_one = least;
  price.hops += hops;
  price.hops_are_bound = true;
  return price;
}

// --- entries of the registry ---------------------------------------------------------------------------------------

/// Whether an algorithm's messages are parts of the vector.
enum class messages { whole, cut };

/// Of a vector without elements all parts are one, and contributors would be counted more than once.
constraints needs_of_partial(const algorithm& of, messages are) {
  constraints needs = of.needs;
  needs.in_place = false;
  needs.min_count = std::max<std::uint64_t>(needs.min_count, are == messages::cut ? 1 : 0);
  needs.summary = "starts by its policy, absent ranks contribute null; then as allreduce";
  return needs;
}

template <const algorithm& of, messages are>
result<schedule_ptr> generate_partial(world place, const shape& data, const activation& starts) {
  if (auto why = objection(k_partial_allreduce, needs_of_partial(of, are), place, data, starts)) return *why;
  const auto body = of.generate(place, data, {});
  return body ? with_activation(**body, starts, data.what) : body;
}

template <const algorithm& of, messages are>
algorithm partial_of() {
  return {.of = &k_partial_allreduce,
          .name = of.name,
          .generate = generate_partial<of, are>,
          .needs = needs_of_partial(of, are),
          .cost_of = cost_of_partial<of>,
          .looks_at = {.segment = of.looks_at.segment, .radix = of.looks_at.radix, .nodes = of.looks_at.nodes}};
}

}  // namespace

result<schedule_ptr> with_activation(const schedule& body, const activation& starts, kernel merge) {
  if (starts.policy == activation_policy::none) return argument("what starts the rounds is not said");
  if (auto why = objection(starts, body.place().size)) return *why;
  if (body.is_partial()) return argument(body.name() + " is partial already");
  if (count_of(body, buffer_role::input) != 1 || count_of(body, buffer_role::output) != 1)
    return argument(body.name() + " has not just one input and one output");
  if (starts.is_woken() && !body.is_synchronising())
    return failure{.code = status::constraint,
                   .text = body.name() + " lets ranks run ahead of those who wake them: it is not synchronising"};
  builder to(body.place(), "partial_" + body.name());
  buffer_id input = 0;
  for (const buffer& it : body.buffers()) {
    const buffer_id id = to.declare(it.role, it.type, it.count, it.space);
    if (it.role == buffer_role::input) input = id;
  }
  const extent whole = extent::imm(body.buffers()[input].count);
  const op_id gate = add_activation(to, starts, merge, input, whole).exit;
  to.set_activation(starts);
  to.set_exit(transcript(to, body).write(gate));
  if (body.is_synchronising()) to.declare_synchronising();
  if (body.is_holding()) to.declare_holding();
  return to.compile();
}

result<schedule_ptr> partial_allreduce(world place, const shape& data, const activation& starts) {
  return generate_partial<k_allreduce_recursive_doubling, messages::whole>(place, data, starts);
}

result<schedule_ptr> partial_allreduce_tree(world place, const shape& data, const activation& starts) {
  return generate_partial<k_allreduce_tree, messages::whole>(place, data, starts);
}

std::vector<algorithm> partial_allreduces() {
  return {partial_of<k_allreduce_recursive_doubling, messages::whole>(),
          partial_of<k_allreduce_tree, messages::whole>(),
          partial_of<k_allreduce_flat, messages::whole>(),
          partial_of<k_allreduce_multiplying, messages::whole>(),
          partial_of<k_allreduce_direct, messages::cut>(),
          partial_of<k_allreduce_rabenseifner, messages::cut>(),
          partial_of<k_allreduce_ring, messages::cut>(),
          partial_of<k_allreduce_two_level, messages::cut>()};
}

}  // namespace lsched
