// Counts the data that baselines of Ok-Topk send and receive in a round, without messages. This is for worlds of
// thousands of ranks, whose lists are random (gradient_source.h).
//
// Payload is the bytes of items, and of values if a block has values. Metadata is lengths of lists, and bitmaps. Data
// that a rank keeps, and headers of messages, are not counted.
#pragma once

#include <span>
#include <vector>

#include "collectives/baselines/gtopk.h"

namespace lsched {

struct rank_traffic {
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t sent_metadata_bytes = 0;
  std::uint64_t received_metadata_bytes = 0;
  friend bool operator==(const rank_traffic&, const rank_traffic&) = default;
};

struct world_traffic {
  std::vector<rank_traffic> ranks;
  /// Payload on the critical path: the sum over all steps of the longer direction of the busiest rank. An exchange
  /// between all ranks is one step, and so is each level of a tree.
  std::uint64_t critical_bytes = 0;
};

/// Adds an allgather by dissemination for any number of ranks. In step s a rank sends the blocks that it has, its own
/// block first, to the rank 2^s before it.
void add_allgather(std::span<const std::uint64_t> block_bytes, world_traffic& to);

/// Counts TopkA and Gaussiank: an allgather of lengths, then of lists. `items` has the length of each rank's list.
world_traffic traffic_of_gathered_lists(dtype type, std::span<const std::uint64_t> items);

/// Counts TopkDSA: parts of lists are sent to the owners of their regions. Then lengths and blocks are gathered.
/// `lists` are the selections of the ranks in rank order, with indices of the whole vector. place.self is not used.
/// Takes a bit of memory for each element.
world_traffic traffic_of_topk_dsa(const sparse_problem& problem, std::span<const item_list> lists);

/// Counts gTopk on the binomial tree with root 0. `lists` are the selections of the ranks, with up to k items each.
/// place.self is not used. Takes memory for a list of each rank. The partial results are those of `gtopk`. `result`, if
/// not null, receives that of the root.
world_traffic traffic_of_gtopk(const sparse_problem& problem, std::span<const item_list> lists, arrival_rule rule,
                               std::vector<std::byte>* result = nullptr);

}  // namespace lsched
