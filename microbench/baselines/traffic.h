// What the baselines of Ok-Topk send and receive in a round, without sending it: for worlds of thousands of ranks,
// whose lists are drawn (gradient_source.h).
//
// Bytes of items, and of values where a block has these, are payload; lengths of lists and bitmaps are metadata. What a
// rank keeps for itself is not counted, nor are headers of messages.
#pragma once

#include <span>
#include <vector>

#include "microbench/baselines/gtopk.h"

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
  /// Payload of all steps after each other, each as long as its busiest rank's longer direction. An exchange of
  /// everybody with everybody is one step; so is each level of a tree.
  std::uint64_t critical_bytes = 0;
};

/// Adds an allgather by dissemination, any number of ranks: in step s a rank sends the blocks that it has, its own
/// first, to the rank 2^s before it.
void add_allgather(std::span<const std::uint64_t> block_bytes, world_traffic& to);

/// TopkA and Gaussiank: `items` of each rank's list. Allgather of lengths, then of lists.
world_traffic traffic_of_gathered_lists(dtype type, std::span<const std::uint64_t> items);

/// TopkDSA: parts of lists to their regions' owners, then an allgather of blocks, after one of their lengths. `lists`:
/// what ranks have selected, in rank order; indices are those of the vector. place.self does not matter. Memory: a bit
/// for each element.
world_traffic traffic_of_topk_dsa(const sparse_problem& problem, std::span<const item_list> lists);

/// gTopk on the binomial tree with root 0. `lists`: what ranks have selected, up to k items each. place.self does not
/// matter. Memory: a list for each rank. The partial results are those of `gtopk`; `result`, if any, becomes the
/// root's.
world_traffic traffic_of_gtopk(const sparse_problem& problem, std::span<const item_list> lists, arrival_rule rule,
                               std::vector<std::byte>* result = nullptr);

}  // namespace lsched
