// The part of a machine that a rank shares with others.
#pragma once

#include <string>
#include <vector>

#include "libsched/transport/shm/shm_segment.h"
#include "offload/cores.h"

namespace lsched {

struct neighbourhood {
  unsigned ranks = 1;           ///< number of ranks on the machine
  unsigned cores = 1;           ///< number of cores that the ranks of the machine may use together
  bool may_have_thread = true;  ///< false if the transport forbids a progress thread
  std::string remark{};         ///< a note on the transport, for describe()
  bool is_reduced = false;      ///< `remark` reports a slower transport than expected
  rank ranks_per_core = 1;      ///< rounded up; maximum over the machines of the world, so equal on all ranks
  std::vector<rank> nodes{};    ///< node numbers, by rank; ranks of a node share memory; empty: all ranks share memory
};

/// Returns the neighbourhood in a world of one segment, on one machine. If `ranks_per_node` is not 0, each group of
/// `ranks_per_node` consecutive ranks is treated as a node, although all ranks share memory.
inline neighbourhood neighbourhood_of(const shm_segment& segment, rank ranks_per_node) {
  const auto ranks = static_cast<unsigned>(segment.ranks());
  const unsigned cores = segment.cores() != 0 ? segment.cores() : usable_cores();
  neighbourhood all{.ranks = ranks, .cores = cores, .ranks_per_core = static_cast<rank>(ranks_per_core(ranks, cores))};
  for (rank r = 0; ranks_per_node != 0 && ranks_per_node < segment.ranks() && r < segment.ranks(); ++r)
    all.nodes.push_back(r / ranks_per_node);
  return all;
}

}  // namespace lsched
