// The machine's resources that a rank shares with other ranks.
#pragma once

#include <string>
#include <vector>

#include "libsched/transport/shm/shm_segment.h"
#include "offload/cores.h"

namespace lsched {

struct neighbourhood {
  unsigned ranks = 1;                ///< number of ranks on the machine
  unsigned cores = 1;                ///< number of cores that the ranks of the machine may use in total
  bool may_have_thread = true;       ///< false if the transport forbids a progress thread
  std::string description{};         ///< note on the transport, for describe()
  bool is_reduced = false;           ///< `description` reports that a slower transport than expected is used
  rank ranks_per_core = 1;           ///< rounded up; maximum over the machines of the world, so equal on all ranks
  std::vector<std::string> hosts{};  ///< for error texts: each rank's host; empty texts for ranks of this node
  std::vector<rank> nodes{};         ///< node id of each rank; ranks of a node share memory; empty: one node
  bool uses_tcp = false;             ///< TCP connects the nodes
};

/// Returns the neighbourhood in a world whose ranks share one segment. If `ranks_per_node` is not 0, each group of
/// `ranks_per_node` consecutive ranks is treated as a node, for tests.
inline neighbourhood neighbourhood_of(const shm_segment& segment, rank ranks_per_node) {
  const auto ranks = static_cast<unsigned>(segment.ranks());
  const unsigned cores = segment.cores() != 0 ? segment.cores() : usable_cores();
  neighbourhood all{.ranks = ranks, .cores = cores, .ranks_per_core = static_cast<rank>(ranks_per_core(ranks, cores))};
  for (rank r = 0; ranks_per_node != 0 && ranks_per_node < segment.ranks() && r < segment.ranks(); ++r)
    all.nodes.push_back(r / ranks_per_node);
  return all;
}

}  // namespace lsched
