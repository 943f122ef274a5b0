// Measures the costs of messages between two nodes, as the parameters of the model that selects algorithms.
#pragma once

#include <optional>

#include "collectives/tuning_table.h"
#include "microbench/harness.h"

namespace lsched::bench {

/// Returns the costs of messages between rank 0 and the first rank of node 1, while all other ranks are idle. `byte` is
/// the time for which a byte occupies the connection. Returns nothing in a world of one node. This function is
/// collective.
std::optional<wire_costs> measure_wire_between_nodes(team& ranks);

}  // namespace lsched::bench
