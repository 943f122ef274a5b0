#include "collectives/activation/with_activation.h"

#include <algorithm>
#include <string>
#include <vector>

#include "collectives/activation/activation.h"
#include "collectives/allreduce/allreduce.h"

namespace lsched {
namespace {

failure argument(std::string text) { return {.code = status::argument, .text = std::move(text)}; }

const buffer& only(const schedule& body, buffer_role role) {
  return *std::ranges::find(body.buffers(), role, &buffer::role);
}

/// Beyond the tags of all bodies.
constexpr std::uint32_t k_census_tag = 1u << 30;

/// The sum of everybody's first element: of what there is in any case, the least. Nobody looks at it but for who
/// contributes.
struct census_sum {
  buffer_id sum = k_no_buffer;
  op_id counted = k_no_op;
};

census_sum add_census(builder& to, buffer_id contribution, op_id entry) {
  const buffer whole = to.at(contribution);
  const shape first{.count = std::min<std::uint64_t>(1, whole.count), .type = whole.type, .what = kernel::sum};
  const buffer_id sum = to.scratch(first.type, first.count);
  to.set_first_tag(k_census_tag);
  const op_id counted = add_allreduce(to, first, contribution, sum, entry).exit;
  to.set_first_tag(0);
  return {sum, counted};
}

bool calls_functions(const schedule& body) {
  return std::ranges::any_of(body.ops(), [](const op& it) { return is_function(it.what); });
}

/// Copies the bodies' ops into a builder.
class transcript {
 public:
  /// Declares one input and one output, as long as those of all bodies together.
  transcript(builder& to, std::span<const schedule_ptr> bodies)
      : to_(to), bodies_(static_cast<std::uint32_t>(bodies.size())) {
    const auto declare_all = [&](buffer_role role) {
      std::uint64_t count = 0;
      for (const schedule_ptr& body : bodies) count += only(*body, role).count;
      return to.declare(role, only(*bodies.front(), role).type, count);
    };
    input_.id = declare_all(buffer_role::input);
    output_.id = declare_all(buffer_role::output);
  }

  buffer_id input() const { return input_.id; }

  /// What nothing in the body precedes comes after `entry`. Answers the op that is the body's exit.
  op_id write(const schedule& body, op_id entry) {
    lay_out(body);
    std::vector<std::uint32_t> causes(body.ops().size(), 0);
    for (op_id id = 0; id < causes.size(); ++id)
      for (const op_id next : body.successors(id)) ++causes[next];
    std::vector<op_id> ids;
    const census_sum everybody = calls_functions(body) ? add_census(to_, input_.id, entry) : census_sum{};
    for (const op& it : body.ops()) {
      ids.push_back(copy(body, it, everybody));
      if (const guard* const when = body.guard_of(it)) to_.set_guard(ids.back(), *when);
    }
    for (op_id id = 0; id < ids.size(); ++id) {
      if (causes[id] == 0) to_.dep(entry, ids[id]);
      for (const op_id next : body.successors(id)) to_.dep(ids[id], ids[next]);
      if (body.ops()[id].need < causes[id]) to_.set_need(ids[id], body.ops()[id].need);
    }
    ++written_;
    return ids[body.exit()];
  }

 private:
  struct home {
    buffer_id id = 0;
    std::uint64_t begin = 0;  ///< of what the next body has of it
  };

  void lay_out(const schedule& body) {
    homes_.clear();
    for (const buffer& it : body.buffers()) {
      if (it.role == buffer_role::scratch) {
        homes_.push_back({it.has_lists() ? to_.lists(it.role, it.type, it.count, it.lists)
                                         : to_.declare(it.role, it.type, it.count, it.space)});
        continue;
      }
      home& whole = it.role == buffer_role::input ? input_ : output_;
      homes_.push_back(whole);
      whole.begin += it.count;
    }
  }

  region at(region part) const {
    if (!part.exists()) return part;
    const home& where = homes_[part.buffer()];
    return {where.id, where.begin + part.offset()};
  }

  /// No two bodies have the same, and no other rank needs to know how many tags its peer's bodies use.
  std::uint32_t tag(const op& it) const { return it.tag * bodies_ + written_; }
  std::uint32_t signal_tag(const op& it) const { return it.tag + written_ * k_signal_tags; }

  /// The result's goes by who contributes. There is one body then, and all of a buffer is all of it.
  op_id apply(const schedule& body, const op& it, const census_sum& everybody) {
    const buffer_id target = at(it.c).buffer();
    const bool makes_result = target == output_.id;
    const buffer_id by = makes_result ? everybody.sum : at(it.b).buffer();
    const op_id made =
        to_.compute(it.what, {.a = at(it.a), .b = {by, 0}, .c = at(it.c)}, it.count, body.parameters_of(it));
    if (makes_result) to_.dep(everybody.counted, made);
    return made;
  }

  op_id copy(const schedule& body, const op& it, const census_sum& everybody) {
    const std::uint64_t count = it.count;
    switch (it.kind) {
      case op_kind::nop: return to_.nop();
      case op_kind::send: return to_.send(it.peer, tag(it), at(it.a), count);
      case op_kind::recv: return to_.recv(it.peer, tag(it), at(it.c), count);
      case op_kind::signal_send: return to_.signal_send(it.peer, signal_tag(it));
      case op_kind::signal_recv: return to_.signal_recv(it.peer, signal_tag(it));
      case op_kind::capture: return to_.capture(it.what, at(it.c), count);
      case op_kind::compute:
        if (is_function(it.what)) return apply(body, it, everybody);
        return to_.compute(it.what, {at(it.a), at(it.b), at(it.s), at(it.c)}, count, body.parameters_of(it));
    }
    return k_no_op;
  }

  builder& to_;
  const std::uint32_t bodies_;
  std::uint32_t written_ = 0;
  home input_, output_;
  std::vector<home> homes_;  ///< by buffer of the body
};

/// One function makes all of the result, and what it makes it of is all that it reads.
bool has_result_by_function(const schedule& body) {
  const auto makes_result = [&](const op& it) {
    return it.c.exists() && body.buffers()[it.c.buffer()].role == buffer_role::output;
  };
  const auto last = std::ranges::find_if(body.ops(), makes_result);
  return std::ranges::count_if(body.ops(), makes_result) == 1 && is_function(last->what) && !last->b.exists();
}

std::optional<failure> objection_to_functions(const schedule& body, std::size_t bodies) {
  if (calls_functions(body)) {
    if (bodies > 1) return argument(body.name() + " calls functions, and goes with no other body");
    if (!has_result_by_function(body)) return argument(body.name() + " has a result that is not of one function alone");
  } else if (std::ranges::any_of(body.buffers(), &buffer::has_lists) || !body.guards().empty()) {
    return argument(body.name() + " has lists or guards, but no functions that see to what is absent");
  }
  return std::nullopt;
}

std::optional<failure> objection_to_body(const schedule& body, const schedule& first, const activation& starts) {
  if (body.is_partial()) return argument(body.name() + " is partial already");
  if (count_of(body, buffer_role::input) != 1 || count_of(body, buffer_role::output) != 1)
    return argument(body.name() + " has not just one input and one output");
  if (body.place() != first.place()) return argument(body.name() + " is of another place than " + first.name());
  const auto is_like_first = [&](buffer_role role) { return only(body, role).type == only(first, role).type; };
  if (!is_like_first(buffer_role::input) || !is_like_first(buffer_role::output))
    return argument(body.name() + " has not the type of " + first.name());
  if (starts.is_woken() && !body.is_synchronising())
    return failure{.code = status::constraint,
                   .text = body.name() + " lets ranks run ahead of those who wake them: it is not synchronising"};
  return std::nullopt;
}

}  // namespace

result<schedule_ptr> with_activation(std::span<const schedule_ptr> bodies, const activation& starts, kernel merge) {
  if (bodies.empty()) return argument("there is nothing to start");
  const schedule& first = *bodies.front();
  if (starts.policy == activation_policy::none) return argument("what starts the rounds is not said");
  if (auto why = objection(starts, first.place().size)) return *why;
  for (const schedule_ptr& body : bodies) {
    if (auto why = objection_to_body(*body, first, starts)) return *why;
    if (auto why = objection_to_functions(*body, bodies.size())) return *why;
  }

  builder to(first.place(), "partial_" + first.name());
  transcript copies(to, bodies);
  const std::uint64_t whole = to.at(copies.input()).count;
  const op_id gate = add_activation(to, starts, merge, copies.input(), whole).exit;
  to.set_activation(starts);
  std::vector<op_id> ends;
  for (const schedule_ptr& body : bodies) ends.push_back(copies.write(*body, gate));
  const op_id exit = ends.size() == 1 ? ends.front() : to.nop();
  for (const op_id end : ends)
    if (end != exit) to.dep(end, exit);
  to.set_exit(exit);
  if (std::ranges::all_of(bodies, [](const schedule_ptr& it) { return it->is_synchronising(); }))
    to.declare_synchronising();
  if (std::ranges::all_of(bodies, [](const schedule_ptr& it) { return it->is_holding(); })) to.declare_holding();
  return to.compile();
}

}  // namespace lsched
