// Times a GOAL program by the rules of LogGOPSim's main line.
//
// An op that is due occupies its CPU, a send and a message also a NIC, of which sending and receiving are apart; who
// finds one of them busy tries again when both are free, and holds neither until then. So messages come in while sends
// wait for the NIC. Where our own simulator (libsched/simulate) lets the wire carry a message's bytes, here the
// receiver's CPU pays them on arrival, matched or not:
//
//   send       CPU o + (m-1) O, NIC g + (m-1) G; at the receiver o + L later; up to S bytes it has ended then
//   message    CPU o + (m-1) max(O, G), NIC g + (m-1) G; ends the oldest receive that matches, or waits for one
//   receive    costs nothing
//   calc       CPU
//
// Above S a send ends when its message meets the receive. Several CPUs and NICs a rank, wildcards and receives of other
// sizes are as the original has them, its defects included; goal_player.cc names them. Times agree with the original's
// to the nanosecond, but where more than 16 ops of a rank become due at once, which it sorts by an unstable algorithm.
// (Hoefler, Schneider, Lumsdaine: "LogGOPSim", HPDC 2010.)
#pragma once

#include <cstdint>
#include <functional>

#include "bindings/cli/goal/goal.h"
#include "libsched/simulate/simulated_round.h"

namespace lsched {

/// Of `where` the costs of the outermost level and S; a calc of n takes n ns. `progress` is called now and then with
/// the number of messages; may be empty. In the report, `finish` is when the last CPU of a rank is free; waits for NICs
/// are not counted.
///
/// Failures, which name the lowest rank: ARGUMENT (a peer or an op that does not exist), STATE (a receive without a
/// message, an op that is never due), UNMATCHED (a message that nobody receives), UNSUPPORTED (too long).
result<simulation_report> play_goal(const goal& program, const machine& where,
                                    const std::function<void(std::uint64_t)>& progress = {});

}  // namespace lsched
