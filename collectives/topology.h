// Where the ranks of a world run, as far as the choice of an algorithm depends on it. Equal on all ranks.
#pragma once

#include <vector>

#include "ops/base.h"

namespace lsched {

/// What moving data takes, in nanoseconds: the parameters of LogGOPS that lsched simulate --calibrate measures.
struct wire_costs {
  double hop = 300;     ///< from one rank's op to the one at another rank that waited for it: L + 2o
  double message = 80;  ///< the CPU's share of a message at either end: o
  double byte = 0.08;   ///< to copy it: G / 2.5, since a copy at one end and a sum at the other make G
  friend bool operator==(const wire_costs&, const wire_costs&) = default;
};

struct topology {
  rank ranks_per_core = 1;    ///< rounded up, where it is worst; above 1, ranks wait for each other's time on a core
  double turn = 450;          ///< of one rank on a shared core, in nanoseconds: to run, and to let the next one run
  std::vector<rank> nodes{};  ///< by rank, a number that the ranks of a node share; empty: one node
  wire_costs near{};          ///< inside a node
  wire_costs far{.hop = 3000, .message = 500, .byte = 0.1};  ///< between nodes
  bool is_one_node() const { return nodes.empty(); }
  bool is_crowded() const { return ranks_per_core > 1; }
};

}  // namespace lsched
