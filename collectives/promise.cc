#include "collectives/promise.h"

#include <algorithm>

#include "collectives/selection.h"
#include "ops/counted.h"

namespace lsched {
namespace {

/// Returns the kernel that combines contributions, or kernel::none.
kernel kernel_of(const schedule& program) {
  for (const op& o : program.ops())
    if (o.kind == op_kind::capture || (o.kind == op_kind::compute && is_reduction(o.what))) return o.what;
  return kernel::none;
}

/// Returns true if the rank divides its output.
bool divides(const schedule& program) {
  return std::ranges::any_of(program.ops(), [&](const op& o) {
    return o.kind == op_kind::compute && o.what == kernel::divide &&
           program.buffers()[o.c.buffer()].role == buffer_role::output;
  });
}

/// Returns the first buffer with this role, or nullptr.
const buffer* first_of(const schedule& program, buffer_role role) {
  const auto first = std::ranges::find(program.buffers(), role, &buffer::role);
  return first == program.buffers().end() ? nullptr : &*first;
}

extents extents_in(const schedule& program) {
  extents both;
  if (const buffer* first = first_of(program, buffer_role::input)) both.input = first->count;
  if (const buffer* first = first_of(program, buffer_role::output)) both.output = first->count;
  return both;
}

/// Returns true if the buffers of all ranks have the sizes that the request requires.
bool fits(const collective& of, std::span<const schedule_ptr> world, const shape& data) {
  return std::ranges::all_of(world, [&](const schedule_ptr& program) {
    return of.extents_of(program->place(), data) == extents_in(*program);
  });
}

/// Returns the number of elements of the rank's own block: the size of the smaller buffer.
std::uint64_t block_in(const schedule& program) {
  const extents both = extents_in(program);
  if (!both.input && !both.output) return 0;
  return std::min(both.input.value_or(k_max_count), both.output.value_or(k_max_count));
}

/// Returns the first rank r for which the buffers fit a request with root r. Returns 0 if no such rank exists.
rank root_in(const collective& of, std::span<const schedule_ptr> world, shape data) {
  for (rank r = 0; r < static_cast<rank>(world.size()); ++r) {
    data.root = r;
    if (fits(of, world, data)) return r;
  }
  return 0;
}

/// Returns the schedule of the first rank that has a buffer with this role, or else the schedule of rank 0.
const schedule& first_with(std::span<const schedule_ptr> world, buffer_role role) {
  const auto found =
      std::ranges::find_if(world, [&](const auto& program) { return first_of(*program, role) != nullptr; });
  return found == world.end() ? *world.front() : **found;
}

/// Returns an error if the caller has given a value that does not apply to the collective.
std::optional<failure> validate(const collective& of, rank size, const asked& wanted) {
  const auto refuse = [&](const std::string& why) {
    return failure{status::argument, std::string(of.name) + " " + why};
  };
  if (wanted.what && !of.reduces) return refuse("has no reduction, so no reduction can be required");
  if (wanted.type && !of.moves_data) return refuse("moves no data, so no dtype can be required");
  if (wanted.count && !of.moves_data) return refuse("moves no data, so no count can be required");
  if (wanted.count && of.has_counts) return refuse("has a count for each rank, so no single count can be required");
  if (wanted.root && !of.is_rooted) return refuse("has no root, so no root can be required");
  if (wanted.root && (*wanted.root < 0 || *wanted.root >= size))
    return refuse("cannot have the root " + std::to_string(*wanted.root) + ": the world has " +
                  counted(wide(size), "rank"));
  return std::nullopt;
}

/// Returns the request: values that the caller has given, and values derived from the schedules.
shape shape_of(const collective& of, std::span<const schedule_ptr> world, const asked& wanted) {
  shape data;
  if (!of.moves_data) return data;
  list_layout lists;
  for (const buffer_role role : {buffer_role::output, buffer_role::input})
    if (const buffer* first = first_of(first_with(world, role), role)) data.type = first->type, lists = first->lists;
  data.count = block_in(first_with(world, buffer_role::input));
  if (&of == &k_alltoall) data.count /= world.size();  // both buffers have P blocks
  data.what = wanted.what.value_or(kernel::none);
  if (of.reduces)
    for (std::size_t r = 0; r < world.size() && data.what == kernel::none; ++r) data.what = kernel_of(*world[r]);
  data.is_mean = of.has_means && std::ranges::any_of(world, [](const auto& program) { return divides(*program); });
  if (of.has_counts) {
    data.count = 0;
    for (const schedule_ptr& program : world) data.counts.push_back(block_in(*program));
  }
  if (of.is_rooted) data.root = wanted.root ? *wanted.root : root_in(of, world, data);
  data.type = wanted.type.value_or(data.type);
  data.count = wanted.count.value_or(data.count);
  if (lists.room != 0) data.room = lists.room, data.count = lists.typical;
  return data;
}

/// Returns the postcondition without a cost. If the kernel is commutative, operands may be combined in any order.
postcondition contents_of(const collective& of, rank size, const shape& data, const activation& starts) {
  postcondition promise = of.contents_of(size, data.room == 0 ? data : in_units(data));
  promise.data = data_of(of, size, data);
  for (promised_range& range : promise.ranges) {
    range.is_in_rank_order &= !row_of(range.how).obeys(law::commutative, data.type);
  }
  if (starts.is_woken() && !has_coordinator(starts, size) && of.activates)
    promise.signals_of_one = static_cast<std::uint64_t>(size) - 1;
  return promise;
}

}  // namespace

result<world_promise> promise_for(std::span<const schedule_ptr> world, const asked& by_caller) {
  const schedule& first = *world.front();
  const auto size = static_cast<rank>(world.size());
  const std::string_view name = first.name(), wanted = by_caller.collective;
  const std::size_t slash = std::min(name.find('/'), name.size());
  const std::string_view algorithm_name = name.substr(std::min(slash + 1, name.size()));
  const collective* of = find_collective(wanted.empty() ? name.substr(0, slash) : wanted);
  if (of == nullptr && !wanted.empty()) return unknown_name(wanted);
  const std::string_view unknown = of == nullptr    ? std::string_view()
                                   : of->adapts     ? "the tensors"
                                   : of->has_blocks ? "the sizes of the blocks"
                                                    : std::string_view();
  const bool is_asked = by_caller.what || by_caller.type || by_caller.count || by_caller.root;
  if (!unknown.empty() && (is_asked || !wanted.empty()))
    return failure{
        status::argument,
        std::string(of->name) + ": " + std::string(unknown) +
            " are unknown, because schedules do not contain them. The outputs cannot be checked: omit the "
            "requirements of a collective, dtype, count, reduction or root"};
  if (of == nullptr && is_asked)
    return failure{status::argument, "\"" + std::string(name) +
                                         "\" does not begin with the name of a collective, so the expected outputs are "
                                         "unknown: name the collective"};
  if (of == nullptr || !unknown.empty()) return world_promise{};
  if (auto why = validate(*of, size, by_caller)) return std::move(*why);
  if (of->activates && first.starts().policy == activation_policy::none)
    return failure{
        status::argument,
        "the required collective " + std::string(of->name) +
            " is partial, but the schedules have no activation policy: name a collective that is not partial"};
  if (!of->activates && first.starts().is_woken())
    return failure{status::argument, std::string(of->name) + " is required, but the schedules start by " +
                                         words_for(first.starts()) +
                                         ", which omits late ranks: name the partial collective"};
  world_promise made{.of = of, .data = shape_of(*of, world, by_caller)};
  if (by_caller.what && !supports(made.data.what, made.data.type))
    return failure{status::argument, std::string(name_of(made.data.what)) + " is not defined for " +
                                         std::string(name_of(made.data.type))};
  made.data.in_place = true;
  made.in_place = aliasing_of(*of, size, made.data);
  made.data.in_place = false;
  const algorithm* by = wanted.empty() ? find(of->name, algorithm_name) : nullptr;
  made.what = by == nullptr ? contents_of(*of, size, made.data, first.starts())
                            : promise_of(*by, size, made.data, first.starts());
  if (by != nullptr && made.data.what != kernel::user) made.by = by;
  if (made.by == nullptr) made.what.round_cost.reset();  // the cost depends on the unit, which schedules do not contain
  return made;
}

std::string words_for(const world_promise& promise) {
  const shape& data = promise.data;
  std::string text(promise.of->name);
  if (promise.by != nullptr) text.append("/").append(promise.by->name);
  if (!promise.of->moves_data) return text;
  if (promise.of->reduces && data.what != kernel::none) text.append(" of ").append(name_of(data.what));
  if (data.is_mean) text += " divided by ranks";
  text += " of ";
  for (std::size_t r = 0; r < data.counts.size(); ++r) text += (r == 0 ? "" : ", ") + std::to_string(data.counts[r]);
  if (data.room != 0) text += "lists of at most " + std::to_string(data.room);
  if (!promise.of->has_counts && data.room == 0) text += std::to_string(data.count);
  text += " x " + std::string(name_of(data.type));
  return promise.of->is_rooted ? text + ", root " + std::to_string(data.root) : text;
}

}  // namespace lsched
