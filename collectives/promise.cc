#include "collectives/promise.h"

#include <algorithm>

namespace lsched {
namespace {

/// How contributions are combined, where any are.
kernel kernel_of(const schedule& program) {
  for (const op& it : program.ops())
    if (it.kind == op_kind::capture || (it.kind == op_kind::compute && it.what != kernel::copy)) return it.what;
  return kernel::none;
}

/// What the collective was asked for, as far as schedules tell: rank 0's first input, and how the first rank combines
/// that does.
shape shape_of(std::span<const schedule_ptr> world) {
  shape data;
  for (const buffer& it : world.front()->buffers())
    if (it.role == buffer_role::input) {
      data = {.count = it.count, .type = it.type};
      break;
    }
  for (std::size_t r = 0; r < world.size() && data.what == kernel::none; ++r) data.what = kernel_of(*world[r]);
  return data;
}

}  // namespace

result<world_promise> promise_for(std::span<const schedule_ptr> world, std::string_view collective) {
  const schedule& first = *world.front();
  const auto size = static_cast<rank>(world.size());
  const shape data = shape_of(world);
  if (!collective.empty()) {
    const algorithm* by = find_any(collective);
    if (by == nullptr) return choose(collective, "auto", {0, size}, data).error();  // lists those that exist
    return world_promise{by, false, by->contents_of(size, data)};
  }
  const std::string_view name = first.name();
  const std::size_t slash = std::min(name.find('/'), name.size());
  if (const algorithm* by = find(name.substr(0, slash), name.substr(std::min(slash + 1, name.size()))))
    return world_promise{by, true, promise_of(*by, size, data, first.starts().policy)};
  if (const algorithm* by = find_any(name.substr(0, slash)))
    return world_promise{by, false, by->contents_of(size, data)};
  return world_promise{};
}

}  // namespace lsched
