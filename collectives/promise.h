// What a world of schedules is held against: what the collective that it is named after promises, or another one.
#pragma once

#include <span>
#include <string_view>

#include "collectives/registry.h"

namespace lsched {

struct world_promise {
  const collective* of = nullptr;  ///< whose contents are promised; nullptr: nothing is promised of the outputs
  const algorithm* by = nullptr;   ///< whose cost is promised, too; nullptr: at any cost
  postcondition what{};
  aliasing in_place = true;  ///< how buffers share memory if the world works in place
};

/// The promise of `collective`, at any cost. If that is empty, of the collective that the schedules are named after
/// ("allreduce/tree"), with its cost if they name a registered algorithm; if there is none, nothing.
/// What was asked for is read off the schedules: dtype, count, counts and root off the first inputs and outputs, which
/// then all have to fit; the kernel off the first rank that combines anything. What an alltoallv or a neighbor_exchange
/// was asked for cannot be read off, so that nothing is promised of their outputs. Without a cost,
/// operands may come in any order where the kernel commutes, and a partial round that one rank starts takes P-1
/// signals. `world` is not empty. Failures: ARGUMENT for a `collective` that does not exist, or is one of those two.
result<world_promise> promise_for(std::span<const schedule_ptr> world, std::string_view collective);

}  // namespace lsched
