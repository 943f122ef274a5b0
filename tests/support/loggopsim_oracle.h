// An oracle for our simulator: the times that LogGOPSim reports for a GOAL program, by the rules of its main branch.
//
// The rules were read from the public source of LogGOPSim (github.com/spcl/LogGOPSim) and written again as a plain
// event loop, which shares no code with our simulator. Defects of the published rules are kept, and are marked with
// "Defect, kept" in loggopsim_oracle.cc. Neither the ATLAHS fork nor LogGOPSim2 follows all of these rules. (Hoefler,
// Schneider, Lumsdaine: "LogGOPSim", HPDC 2010.)
#pragma once

#include <cstdint>
#include <vector>

#include "bindings/cli/goal/goal.h"
#include "ops/status.h"

namespace lsched {

/// Determines the numbers of ops that become free at the same moment on the same rank. Among ops with the same time,
/// the op with the lowest number runs first. With GNU's standard library, both orders are equal for up to 16 ops.
enum class freed_order : std::uint8_t {
  stable,    ///< first sends, then receives, then calcs; within a kind, in the order in which the ops became free
  std_sort,  ///< the order that std::sort of this standard library produces when ops are sorted by kind, as in the
             ///< published source
};

/// The parameters, with the published defaults. As in LogGOPSim, all times are integers in the same unit. With the
/// defaults, the unit is a nanosecond. For fractions of a nanosecond, give every time in picoseconds and set calc_unit
/// to 1000.
struct loggopsim_parameters {
  std::uint64_t latency = 2500;         ///< L
  std::uint64_t overhead = 1500;        ///< o
  std::uint64_t gap = 1000;             ///< g
  std::uint64_t gap_per_byte = 6;       ///< G
  std::uint64_t overhead_per_byte = 0;  ///< O
  std::uint64_t most_eager = 65535;  ///< S: maximum size of an eager message in bytes; a larger message is a rendezvous
  std::uint64_t calc_unit = 1;       ///< time of one unit of a calc
  freed_order order = freed_order::stable;
};

/// Returns, by rank, the time that LogGOPSim prints as "Host N": the time at which the rank's last CPU becomes free.
/// The results have the unit of the parameters.
///
/// Failures name the lowest rank concerned: `argument` (a peer or an edge that does not exist), `state` (the program
/// does not complete because of a receive without a message, a message without a receive, or an op that never starts).
/// In the first two cases of `state`, LogGOPSim prints no times. It does not detect the third case.
result<std::vector<std::uint64_t>> run_loggopsim(const goal& program, const loggopsim_parameters& parameters = {});

}  // namespace lsched
