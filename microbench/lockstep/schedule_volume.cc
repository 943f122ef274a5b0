#include "microbench/lockstep/schedule_volume.h"

#include <algorithm>

namespace lsched {

schedule_volume volume_of(const schedule& program) {
  const auto buffers = program.buffers();
  const bool has_lists = std::ranges::any_of(buffers, &buffer::has_lists);
  schedule_volume all;
  for (const op& o : program.ops()) {
    const guard* const when = program.guard_of(o);
    if ((o.kind != op_kind::send && o.kind != op_kind::recv) || (when != nullptr && when->skips_empty)) continue;
    moved_bytes& to = o.kind == op_kind::send ? all.sent : all.received;
    const region place = o.a.exists() ? o.a : o.c;
    const bool is_payload = !has_lists || (place.exists() && buffers[place.buffer()].has_lists());
    (is_payload ? to.payload : to.metadata) += typical_bytes(program, o);
    ++to.messages;
  }
  return all;
}

}  // namespace lsched
