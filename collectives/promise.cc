#include "collectives/promise.h"

#include <algorithm>

namespace lsched {
namespace {

/// What the collective was asked for, as far as a schedule tells: the first input, and how it is combined.
shape shape_of(const schedule& program) {
  shape data;
  for (const buffer& it : program.buffers())
    if (it.role == buffer_role::input) {
      data = {.count = it.count, .type = it.type};
      break;
    }
  for (const op& it : program.ops())
    if (it.kind == op_kind::capture || (it.kind == op_kind::compute && it.what != kernel::copy)) {
      data.what = it.what;
      break;
    }
  return data;
}

}  // namespace

result<world_promise> promise_for(std::span<const schedule_ptr> world, std::string_view collective) {
  const schedule& first = *world.front();
  const auto size = static_cast<rank>(world.size());
  const shape data = shape_of(first);
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
