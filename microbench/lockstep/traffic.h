// Counts the bytes that baselines of Ok-Topk would send and receive in a round, without sending messages. The counters
// are for worlds of thousands of ranks with random lists (gradient_source.h).
//
// Payload is the bytes of items, or of values in blocks of values. Metadata is the bytes of bitmaps and of the lengths
// of lists. Data that a rank keeps, and headers of messages, are not counted.
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
  /// Payload on the critical path. Each step contributes the larger of the bytes that its busiest rank sends and the
  /// bytes that this rank receives. An exchange between all ranks is one step, and each level of a tree is one step.
  std::uint64_t critical_bytes = 0;
};

/// Adds the traffic of an allgather by dissemination (Bruck) for any number of ranks. In step s, rank r sends its first
/// 2^s blocks, or all that are still missing, to rank r - 2^s.
void add_allgather(std::span<const std::uint64_t> block_bytes, world_traffic& to);

/// Counts TopkA and Gaussiank: an allgather of lengths, then an allgather of lists. `items` has the length of each
/// rank's list.
world_traffic traffic_of_gathered_lists(dtype type, std::span<const std::uint64_t> items);

/// Counts TopkDSA. Each rank owns one region of the vector, and receives the items of that region. Then the lengths and
/// the blocks of all regions are gathered. `lists` are the selections of the ranks in rank order, with indices into the
/// whole vector. place.self is not used. Allocates one bit for each element.
world_traffic traffic_of_topk_dsa(const sparse_problem& problem, std::span<const item_list> lists);

/// Counts gTopk on the binomial tree with root 0. `lists` are the selections of the ranks, with up to k items each.
/// place.self is not used. Allocates memory for one list per rank. Partial results are equal to those of the algorithm
/// `gtopk`. `*result` receives the result of the root, unless `result` is null.
world_traffic traffic_of_gtopk(const sparse_problem& problem, std::span<const item_list> lists, arrival_rule rule,
                               std::vector<std::byte>* result = nullptr);

}  // namespace lsched
