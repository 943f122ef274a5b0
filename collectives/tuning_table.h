// What was measured: which algorithm is the fastest for which request. `lsched bench tune` writes such tables, the
// library reads them (LSCHED_TUNING), docs/reference/collectives.md describes the text.
//
//   libsched tuning 1
//   wire near 310 85 0.11                                       # hop, message, byte in nanoseconds
//   turn 1400
//   allreduce ranks 2 near roomy bytes 0 4096 recursive_doubling
//   allreduce ranks 2 near roomy bytes 4097 max direct segment 65536
//
// A rule is for that many ranks, on one node (near) or on several (far), with a core for each rank (roomy) or not
// (crowded), and for blocks or vectors of so many bytes. Where two fit, the first one counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/algorithm/shape.h"
#include "ops/status.h"

namespace lsched {

/// What moving data takes, in nanoseconds: the parameters of LogGOPS that lsched simulate --calibrate measures.
struct wire_costs {
  double hop = 300;     ///< from one rank's op to the one at another rank that waited for it: L + 2o
  double message = 80;  ///< the CPU's share of a message at either end: o
  double byte = 0.08;   ///< to copy it: G / 2.5, since a copy at one end and a sum at the other make G
  friend bool operator==(const wire_costs&, const wire_costs&) = default;
};

/// Where the ranks of a world run, as far as the choice of an algorithm depends on it. Equal on all ranks.
struct topology {
  rank ranks_per_core = 1;    ///< rounded up, where it is worst; above 1, ranks wait for each other's time on a core
  double turn = 450;          ///< of one rank on a shared core, in nanoseconds: to run, and to let the next one run
  std::vector<rank> nodes{};  ///< by rank, a number that the ranks of a node share; empty: one node
  wire_costs near{};          ///< inside a node
  wire_costs far{.hop = 3000, .message = 500, .byte = 0.1};  ///< between nodes
  bool is_one_node() const { return nodes.empty(); }
  bool is_crowded() const { return ranks_per_core > 1; }
};

struct tuning_rule {
  std::string collective;
  rank ranks = 0;
  bool is_near = true;
  bool is_crowded = false;
  std::uint64_t least_bytes = 0;
  std::uint64_t most_bytes = 0;
  std::string algorithm;
  std::uint64_t segment_bytes = 0;  ///< 0: the algorithm's own choice
  rank radix = 0;
  std::uint32_t line = 0;  ///< of the text, for people
  friend bool operator==(const tuning_rule&, const tuning_rule&) = default;
};

struct tuning_table {
  std::vector<tuning_rule> rules{};
  std::optional<wire_costs> near{}, far{};
  std::optional<double> turn{};

  /// The rules for such a request, in order.
  std::vector<const tuning_rule*> find(std::string_view collective, rank ranks, const topology& around,
                                       std::uint64_t bytes) const;

  friend bool operator==(const tuning_table&, const tuning_table&) = default;
};

/// ARGUMENT, with line and reason, for text that is not of the form; UNSUPPORTED for another version of it.
result<tuning_table> parse_tuning(std::string_view text);

}  // namespace lsched
