// What Ok-Topk's rivals send and receive in a round, without sending it: for worlds of thousands of ranks, whose lists
// are drawn one by one (list_source.h).
//
// Bytes of items, and of values where a block has these, are payload; lengths of lists and bitmaps are metadata. What a
// rank keeps for itself is not counted, nor are headers of messages.
#pragma once

#include <span>
#include <vector>

#include "collectives/sparse/protocol/problem.h"
#include "libsched/schedule/geometry.h"
#include "microbench/baselines/gtopk.h"
#include "ops/sparse/sparse.h"

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

/// TopkDSA: parts of lists to their regions' owners, then an allgather of blocks, after one of their lengths. Memory: a
/// bit for each element.
class topk_dsa_traffic {
 public:
  /// place.self does not matter.
  explicit topk_dsa_traffic(const sparse_problem& problem);

  /// What a rank has selected; every rank once. Indices are those of the vector.
  void add(rank from, item_list list);

  world_traffic finish() const;

 private:
  dtype type_;
  cut regions_;
  world_traffic split_;
  std::vector<std::uint64_t> touched_;  ///< a bitmap of the vector
};

/// gTopk on the binomial tree with root 0. Memory: a list for each level. Partial results are what `gtopk` makes.
class gtopk_traffic {
 public:
  /// place.self does not matter.
  gtopk_traffic(const sparse_problem& problem, arrival_rule rule);

  /// What a rank has selected, up to k items; every rank once, in rank order.
  void add(item_list list);

  /// After the last rank. Answers the traffic; the result is here until this object is gone.
  world_traffic finish();
  item_list result() const { return {subtrees_.front().items.data(), subtrees_.front().count}; }

 private:
  /// The partial result of ranks [first, first + size).
  struct subtree {
    std::uint32_t first = 0;
    std::uint32_t size = 0;
    std::uint64_t count = 0;
    std::vector<std::byte> items;
  };

  void merge_last();

  dtype type_;
  arrival_rule rule_;
  std::uint64_t k_;
  decltype(sparse_kernels::merge_add) merge_add_;
  decltype(sparse_kernels::keep_largest) keep_largest_;
  std::vector<std::byte> merged_;  ///< two lists
  std::vector<subtree> subtrees_;  ///< the first `open_` of them, by rank
  std::size_t open_ = 0;
  std::uint32_t added_ = 0;
  std::vector<std::uint64_t> longest_;  ///< bytes that went up in each step, at most
  world_traffic traffic_;
};

}  // namespace lsched
