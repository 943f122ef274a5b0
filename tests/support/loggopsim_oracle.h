// What LogGOPSim reports for a GOAL program, by the rules of its main line.
//
// The rules were read from its public source (github.com/spcl/LogGOPSim) and written down again as a plain event loop,
// to be compared with our own simulator and to share nothing with it. Where the published rule is a defect it is kept,
// and loggopsim_oracle.cc says "Defect, kept". Neither the ATLAHS fork nor LogGOPSim2 follow all of these rules.
// (Hoefler, Schneider, Lumsdaine: "LogGOPSim", HPDC 2010.)
#pragma once

#include <cstdint>
#include <vector>

#include "bindings/cli/goal/goal.h"
#include "ops/status.h"

namespace lsched {

/// In which order ops get their numbers that become free at the same moment on the same rank. Of ops of the same time,
/// the one with the lower number runs first. With GNU's standard library, both are the same up to 16 ops.
enum class freed_order : std::uint8_t {
  stable,    ///< sends, receives, calcs; ops of the same kind in the order in which they became free
  std_sort,  ///< what std::sort by kind, which the published source calls, does with this standard library
};

/// The published defaults. All times are in one unit, nanoseconds with these defaults, and whole numbers, as in the
/// original. For parts of a nanosecond give every time in picoseconds and set calc_unit to 1000.
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

/// By rank, the time that the original prints as "Host N": when the last of its CPUs becomes free, in the unit of the
/// parameters.
///
/// Failures, naming the lowest rank concerned: `argument` (a peer or an edge that does not exist), `state` (the program
/// does not come to its end: a receive without a message, a message that nobody receives, an op that never starts; the
/// original prints no times in the first two cases, and takes no notice of the third).
result<std::vector<std::uint64_t>> run_loggopsim(const goal& program, const loggopsim_parameters& parameters = {});

}  // namespace lsched
