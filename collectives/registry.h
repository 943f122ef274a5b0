// The table of what there is: collective and algorithm by name, generator, constraints, and what it promises: contents
// and cost.
//
// "auto" goes by the declared costs: the fewest hops where every rank has a core of its own, and the fewest messages
// where ranks share cores, because there each message means that somebody has to be woken.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/generator.h"
#include "libsched/postcondition.h"

namespace lsched {

struct algorithm {
  std::string_view collective;
  std::string_view name;
  generator generate;
  const constraints* needs;
  cost (*cost_of)(rank size, const shape& data, activation_policy policy);
  postcondition (*contents_of)(rank size, const shape& data);  ///< what the outputs hold, at any price
};

/// All that an algorithm promises of a world: contents and cost.
postcondition promise_of(const algorithm& what, rank size, const shape& data, activation_policy policy);

/// All of them, collectives side by side.
std::span<const algorithm> algorithms();

/// Exactly this one, or nullptr.
const algorithm* find(std::string_view collective, std::string_view name);

/// One of this collective, which speaks for all in what its outputs hold and whether it moves data; nullptr if there is
/// no such collective.
const algorithm* find_any(std::string_view collective);

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
