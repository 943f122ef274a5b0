// The table of what there is: every algorithm of every collective, and the choice between them.
//
// "auto" goes by the declared costs: the fewest hops where every rank has a core of its own, and the fewest messages
// where ranks share cores, because there each message means that somebody has to be woken.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/algorithm.h"

namespace lsched {

/// The buffers of all ranks.
promised_data data_of(const collective& of, rank size, const shape& data);

/// All that an algorithm promises of a world: buffers, contents and cost.
postcondition promise_of(const algorithm& what, rank size, const shape& data, activation_policy policy);

/// All of them, collectives side by side.
std::span<const algorithm> algorithms();

/// Exactly this one, or nullptr.
const algorithm* find(std::string_view collective, std::string_view name);

/// The algorithm of this name, or for "auto" the cheapest that can serve the request; `is_crowded`: ranks share cores,
/// equal on all ranks. Failures: `argument` for names that do not exist (the text lists those that do) and for
/// meaningless requests, `constraint` for an algorithm, or a collective, that cannot do this request.
result<const algorithm*> choose(std::string_view collective, std::string_view name, world place,
                                const shape& data, const activation& starts = {}, bool is_crowded = false);

/// choose, then generate.
result<schedule_ptr> generate(std::string_view collective, std::string_view name, world place,
                              const shape& data, const activation& starts = {});

/// The schedules of all ranks, by rank. Failures: the generator's.
result<std::vector<schedule_ptr>> generate_world(const algorithm& what, rank size, const shape& data,
                                                 const activation& starts = {});

}  // namespace lsched
