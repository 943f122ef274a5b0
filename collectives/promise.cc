#include "collectives/promise.h"

#include <algorithm>
#include <optional>

namespace lsched {
namespace {

/// How contributions are combined, where any are.
kernel kernel_of(const schedule& program) {
  for (const op& it : program.ops())
    if (it.kind == op_kind::capture || (it.kind == op_kind::compute && it.what != kernel::copy)) return it.what;
  return kernel::none;
}

/// What the collective was asked for, as far as schedules tell: the first input of the first rank that has one, and how
/// the first rank combines that does.
shape shape_of(std::span<const schedule_ptr> world) {
  shape data;
  for (const schedule_ptr& mine : world) {
    const auto first = std::ranges::find(mine->buffers(), buffer_role::input, &buffer::role);
    if (first == mine->buffers().end()) continue;
    data = {.count = first->count, .type = first->type};
    break;
  }
  for (std::size_t r = 0; r < world.size() && data.what == kernel::none; ++r) data.what = kernel_of(*world[r]);
  return data;
}

/// As all ranks should have it.
std::optional<promised_data> data_of(const algorithm& by, const shape& data) {
  if (!by.needs->moves_data) return std::nullopt;
  return promised_data{data.count, data.type};
}

/// Whether a (op) b and b (op) a are the same bits. So they are with every reduction there is (ops/kernel.h): integers
/// wrap around, sums and products round once, and every NaN is the same.
bool is_commutative(kernel what) { return is_reduction(what); }

/// Of any algorithm of the collective, at any price: operands may come in any order where kernels do not mind.
postcondition contents_of(const algorithm& by, rank size, const shape& data, activation_policy policy) {
  postcondition promise = by.contents_of(size, data);
  promise.data = data_of(by, data);
  for (promised_range& it : promise.ranges) it.is_in_rank_order = it.is_in_rank_order && !is_commutative(it.how);
  const bool is_woken = policy == activation_policy::solo || policy == activation_policy::majority;
  if (is_woken && by.needs->activates) promise.signals_of_one = static_cast<std::uint64_t>(size) - 1;
  return promise;
}

}  // namespace

result<world_promise> promise_for(std::span<const schedule_ptr> world, std::string_view collective) {
  const schedule& first = *world.front();
  const auto size = static_cast<rank>(world.size());
  const shape data = shape_of(world);
  if (!collective.empty()) {
    const algorithm* by = find_any(collective);
    if (by == nullptr) return choose(collective, "auto", {0, size}, data).error();  // lists those that exist
    return world_promise{by, false, contents_of(*by, size, data, first.starts().policy)};
  }
  const std::string_view name = first.name();
  const std::size_t slash = std::min(name.find('/'), name.size());
  if (const algorithm* by = find(name.substr(0, slash), name.substr(std::min(slash + 1, name.size())))) {
    world_promise all{by, true, promise_of(*by, size, data, first.starts().policy)};
    all.what.data = data_of(*by, data);
    return all;
  }
  if (const algorithm* by = find_any(name.substr(0, slash)))
    return world_promise{by, false, contents_of(*by, size, data, first.starts().policy)};
  return world_promise{};
}

}  // namespace lsched
