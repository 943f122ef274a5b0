// An oracle for our simulator: the times that LogGOPSim reports for a GOAL program, by the rules of its main branch.
//
// The rules were read from its public source (github.com/spcl/LogGOPSim) and written again as a plain event loop, which
// shares no code with our simulator. Defects of the published rules are kept, and are marked with "Defect, kept" in
// loggopsim_oracle.cc. Neither the ATLAHS fork nor LogGOPSim2 follows all of these rules. (Hoefler, Schneider,
// Lumsdaine: "LogGOPSim", HPDC 2010.)
#pragma once

#include <cstdint>
#include <vector>

#include "bindings/cli/goal/goal.h"
#include "ops/status.h"

namespace lsched {

/// The order in which ops are numbered that become free at the same moment on the same rank. Among ops of the same
/// time, the op with the lower number runs first. With GNU's standard library, both orders are equal for up to 16 ops.
enum class freed_order : std::uint8_t {
  stable,    ///< sends, receives, calcs; ops of the same kind in the order in which they became free
  std_sort,  ///< the order of std::sort by kind, as in the published source, with this standard library
};

/// The parameters, with the published defaults. As in the original, all times are whole numbers in one unit, which is
/// nanoseconds with these defaults. For fractions of a nanosecond, give every time in picoseconds and set calc_unit to
/// 1000.
struct loggopsim_parameters {
  std::uint64_t latency = 2500;         ///< L
  std::uint64_t overhead = 1500;        ///< o
  std::uint64_t gap = 1000;             ///< g
  std::uint64_t gap_per_byte = 6;       ///< G
  std::uint64_t overhead_per_byte = 0;  ///< O
  std::uint64_t most_eager = 65535;     ///< S, bytes: a larger message is a rendezvous
  std::uint64_t calc_unit = 1;          ///< units of time in one unit of a calc
  freed_order order = freed_order::stable;
};

/// Returns, by rank, the time that the original prints as "Host N". At this time the rank's last CPU becomes free. The
/// unit is that of the parameters.
///
/// Failures name the lowest rank concerned: `argument` (a peer or an edge that does not exist), `state` (the program
/// does not complete because of a receive without a message, a message without a receive, or an op that never starts).
/// The original prints no times in the first two cases of `state`, and ignores the third.
result<std::vector<std::uint64_t>> run_loggopsim(const goal& program, const loggopsim_parameters& parameters = {});

}  // namespace lsched
