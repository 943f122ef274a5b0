// What a rank shares its machine with.
#pragma once

#include <string>
#include <vector>

#include "libsched/transport/shm/shm_segment.h"
#include "offload/cores.h"

namespace lsched {

/// What a rank finds on its machine.
struct neighbourhood {
  unsigned ranks = 1;           ///< that share the machine
  unsigned cores = 1;           ///< that they may use together
  bool may_have_thread = true;  ///< false: the transport forbids one
  std::string remark{};         ///< about the transport, for people
  bool is_reduced = false;      ///< it says what falls short of what could be expected
  rank ranks_per_core = 1;      ///< rounded up, on the machine of the world where it is worst; equal on all ranks
  std::vector<rank> nodes{};    ///< by rank of the world, a number that those who share memory share; empty: all do
};

/// Of a world whose ranks are those of one segment, and of one machine. With `ranks_per_node`, neighbours play nodes of
/// that many, although they share memory; 0: they do not.
inline neighbourhood neighbourhood_of(const shm_segment& segment, rank ranks_per_node) {
  const auto ranks = static_cast<unsigned>(segment.ranks());
  const unsigned cores = segment.cores() != 0 ? segment.cores() : usable_cores();
  neighbourhood all{.ranks = ranks, .cores = cores, .ranks_per_core = static_cast<rank>(ranks_per_core(ranks, cores))};
  for (rank r = 0; ranks_per_node != 0 && ranks_per_node < segment.ranks() && r < segment.ranks(); ++r)
    all.nodes.push_back(r / ranks_per_node);
  return all;
}

}  // namespace lsched
