// The table of what there is: every algorithm of every collective.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/algorithm/algorithm.h"
#include "collectives/compose.h"

namespace lsched {

/// The buffers of all ranks.
promised_data data_of(const collective& of, rank size, const shape& data);

/// All that an algorithm promises of a world: buffers, contents and cost. One that was read from a file promises no
/// cost: its costs are counted.
postcondition promise_of(const algorithm& how, rank size, const shape& data, const activation& starts);

/// All of them, collectives side by side. What is added later is not among them; entries last as long as the process.
std::span<const algorithm> algorithms();

/// Adds one that is no part of the library behind its collective's: a baseline, or one that was read from a file. What
/// the entry points at outlives the process' last call. Any thread; it copies the table.
void add_algorithm(const algorithm& more);

/// Exactly this one, or nullptr.
const algorithm* find(std::string_view collective, std::string_view name);

/// The schedules of all ranks, by rank. Failures: the generator's.
result<std::vector<schedule_ptr>> generate_world(const algorithm& how, rank size, const shape& data,
                                                 const activation& starts = {});

}  // namespace lsched
