// The tuning table consists of rules. For a request, a rule gives the algorithm that was the fastest in measurements.
// `lsched bench tune` writes such tables, and the library reads them (LSCHED_TUNING). docs/reference/collectives.md
// describes the format.
//
//   libsched tuning 1
//   wire near 310 85 0.11                                       # hop, message, byte in nanoseconds
//   turn 1400
//   allreduce ranks 2 near roomy bytes 0 4096 recursive_doubling
//   allreduce ranks 2 near roomy bytes 4097 max direct segment 65536
//
// A rule applies to the given number of ranks, and to blocks or vectors in the given range of bytes. The ranks are on
// one node (near) or on several nodes (far), and have a core each (roomy) or share cores (crowded). If several rules
// apply, the first is used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/algorithm/shape.h"
#include "ops/status.h"

namespace lsched {

/// Costs of messages and copies in nanoseconds. L, o and G are parameters of LogGOPS. `lsched simulate --calibrate`
/// measures them.
struct wire_costs {
  double hop = 300;     ///< latency between two ops of different ranks if the second op waits for the first: L + 2o
  double message = 80;  ///< CPU time of a message, at either end: o
  double byte = 0.08;   ///< inside a node, time to copy a byte: G / 2.5, because G is the time of a copy (sender) plus
                        ///< a sum (receiver); between nodes, time for which the network carries a byte: G
  friend bool operator==(const wire_costs&, const wire_costs&) = default;
};

/// Costs between nodes that TCP connects.
inline constexpr wire_costs k_tcp_costs{.hop = 15000, .message = 4000, .byte = 0.4};

/// The placement of the ranks of a world on cores and nodes, for the choice of an algorithm. Equal on all ranks.
struct topology {
  rank ranks_per_core = 1;    ///< maximum over all machines, rounded up; if above 1, ranks share cores
  double turn = 450;          ///< nanoseconds for which a rank runs on a shared core, including the context switch
  std::vector<rank> nodes{};  ///< node id of each rank; empty: one node
  wire_costs near{};          ///< costs within a node
  wire_costs far{.hop = 3000, .message = 500, .byte = 0.1};  ///< costs between nodes
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
  std::uint64_t segment_bytes = 0;  ///< 0: chosen by the algorithm
  rank radix = 0;
  std::uint32_t line = 0;  ///< line number in the text, for diagnostics
  friend bool operator==(const tuning_rule&, const tuning_rule&) = default;
};

struct tuning_table {
  std::vector<tuning_rule> rules{};
  std::optional<wire_costs> near{}, far{};
  std::optional<double> turn{};

  /// Returns the rules that apply to the request, in order.
  std::vector<const tuning_rule*> find(std::string_view collective, rank ranks, const topology& around,
                                       std::uint64_t bytes) const;

  friend bool operator==(const tuning_table&, const tuning_table&) = default;
};

/// Parses a table. Fails with ARGUMENT, line and reason if the text is invalid, and with UNSUPPORTED for another
/// version.
result<tuning_table> parse_tuning(std::string_view text);

}  // namespace lsched
