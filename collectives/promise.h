// What a world of schedules is held against: what the collective that it is named after promises, or another one.
#pragma once

#include <span>
#include <string_view>

#include "collectives/registry.h"

namespace lsched {

struct world_promise {
  const algorithm* by = nullptr;  ///< whose contents are promised; nullptr: nothing is promised of the outputs
  bool has_price = false;         ///< the cost that `by` declares is promised, too
  postcondition what{};
};

/// The promise of any algorithm of `collective`, at any price. If that is empty, of the collective that the schedules
/// are named after ("allreduce/tree"), with its price if they name a registered algorithm; if there is none, nothing.
/// What was asked for is read off the schedules: count and dtype off the first input there is, which all ranks' first
/// inputs and outputs then have to look like; the kernel off the first rank that combines anything. Without a price,
/// operands may come in any order where the kernel commutes, and a partial round that one rank starts takes P-1 signals.
/// `world` is not empty. Failures: ARGUMENT for a `collective` that does not exist.
result<world_promise> promise_for(std::span<const schedule_ptr> world, std::string_view collective);

}  // namespace lsched
