// Requests for the schedules of all ranks of a world. The command and the functions of the C interface that analyze
// schedules make such requests. Such a request contains no addresses, and no lists of the blocks of a single rank.
#pragma once

#include <optional>
#include <vector>

#include "collectives/requests/collective_request.h"
#include "collectives/selection.h"

namespace lsched {

/// The maximum number of ranks in a proof, and in a simulation.
inline constexpr rank k_most_proved = 1 << 20, k_most_simulated = 1 << 24;

/// Returns ARGUMENT for a number of ranks below 1 or above `most`. `most` must be a power of two.
std::optional<failure> validate_ranks(rank ranks, rank most);

/// An algorithm for a request, and the data from which the schedules are generated.
struct world_choice {
  const algorithm* how = nullptr;
  shape data{};
  activation starts{};
};

/// Chooses the algorithm for a request in a world of `ranks` ranks. Returns ARGUMENT for an unknown name, an invalid
/// member, or a number of ranks that validate_ranks() refuses. Returns CONSTRAINT if the algorithm does not support the
/// request.
result<world_choice> choose_for_world(const collective_request& request, rank ranks, rank most_ranks, bool in_place);

/// Returns a typical shape (sample_requests.h) of `request.count` elements. The nodes, root, divisor and tensors of
/// `request` replace the typical values if the collective uses them. Other members are ignored. The type, the
/// reduction, the divisor and the tensors must be valid.
shape shape_of(const collective& of, rank ranks, const collective_request& request);

/// Returns the node of each rank. Every `ranks_per_node` consecutive ranks share a node.
std::vector<rank> nodes_of_neighbors(rank ranks, rank ranks_per_node);

}  // namespace lsched
