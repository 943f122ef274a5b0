// The table of what there is: every algorithm of every collective.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/algorithm/algorithm.h"
#include "collectives/compose.h"
#include "libsched/postcondition/aliasing.h"

namespace lsched {

/// The buffers of all ranks.
promised_data data_of(const collective& of, rank size, const shape& data);

/// Where each rank's input and output lie in one memory; in none if the shape does not say in place.
aliasing aliasing_of(const collective& of, rank size, const shape& data);

/// All that an algorithm promises of a world: buffers, contents and cost.
postcondition promise_of(const algorithm& what, rank size, const shape& data, const activation& starts);

/// All of them, collectives side by side.
std::span<const algorithm> algorithms();

/// Exactly this one, or nullptr.
const algorithm* find(std::string_view collective, std::string_view name);

/// The schedules of all ranks, by rank. Failures: the generator's.
result<std::vector<schedule_ptr>> generate_world(const algorithm& what, rank size, const shape& data,
                                                 const activation& starts = {});

}  // namespace lsched
