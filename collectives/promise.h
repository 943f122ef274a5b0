// What a world of schedules is held against: what the collective that it is named after promises, or another one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "collectives/registry.h"

namespace lsched {

/// What a caller says that a world was asked for; all else is read off its schedules.
struct asked {
  std::string_view collective{};  ///< empty: the one that the schedules are named after
  std::optional<kernel> what{};   ///< the reduction
  std::optional<dtype> type{};
  std::optional<std::uint64_t> count{};  ///< as in a shape: of the vector, or of a rank's block
  std::optional<rank> root{};
};

struct world_promise {
  const collective* of = nullptr;  ///< whose contents are promised; nullptr: nothing is promised of the outputs
  const algorithm* by = nullptr;   ///< whose cost is promised, too; nullptr: at any cost
  shape data{};                    ///< what `of` was asked for
  postcondition what{};
  aliasing in_place = true;  ///< how buffers share memory if the world works in place
};

/// The promise of the collective that the caller names, at any cost. If that is empty, of the collective that the
/// schedules are named after ("allreduce/tree"), with its cost if they name a registered algorithm; if there is none,
/// nothing.
///
/// What the caller leaves open is read off the schedules, which then all have to fit: dtype, count, counts and root off
/// the first inputs and outputs; the kernel off the first rank that combines anything. So only what the caller says is
/// held against them: a world whose ranks all take the maximum where sums were meant keeps what is read off it. What an
/// alltoallv or a neighbor_exchange was asked for cannot be read off, so that nothing is promised of their outputs.
/// Without a cost, operands may come in any order where the kernel commutes, and a partial round that one rank starts
/// takes P-1 signals.
///
/// `world` is not empty. Failures: ARGUMENT for a collective that does not exist or is one of those two, for anything
/// that the collective does not have, and for anything that is asked where nothing is promised.
result<world_promise> promise_for(std::span<const schedule_ptr> world, const asked& by_caller = {});

/// "allreduce/tree of sum of 5 x f64", "bcast of 5 x f64, root 2"; of something that is promised.
std::string words_for(const world_promise& promise);

}  // namespace lsched
