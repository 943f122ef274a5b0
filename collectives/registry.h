// The registry: a table of every algorithm of every collective.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/algorithm/algorithm.h"
#include "collectives/compose.h"

namespace lsched {

/// Returns the sizes of the buffers of all ranks.
promised_data data_of(const collective& of, rank size, const shape& data);

/// Returns the complete postcondition of an algorithm: buffers, contents and cost. For a dense algorithm from a file,
/// the postcondition has no cost, because the algorithm's cost is counted from its schedules.
postcondition promise_of(const algorithm& how, rank size, const shape& data, const activation& starts);

/// Returns all algorithms. The algorithms of one collective are adjacent. Algorithms that are added later are not
/// included. Entries are valid until the process ends.
std::span<const algorithm> algorithms();

/// Adds an algorithm that is not part of the library, such as a baseline or an algorithm from a file. The algorithm is
/// added after the other algorithms of its collective. The objects to which `more` points must stay valid until the
/// process ends. Thread-safe. Copies the table.
void add_algorithm(const algorithm& more);

/// Returns the algorithm with exactly this name, or nullptr.
const algorithm* find(std::string_view collective, std::string_view name);

/// Returns the schedules of all ranks, in rank order, or the error of the generator.
result<std::vector<schedule_ptr>> generate_world(const algorithm& how, rank size, const shape& data,
                                                 const activation& starts = {});

}  // namespace lsched
