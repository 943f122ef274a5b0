// Times a GOAL program by the rules of LogGOPSim's main line.
//
// An op that is due occupies its CPU. A send or a message also occupies a NIC, which sends and receives independently.
// If one of the two is busy, the op tries again when both are free, and holds neither until then. So messages come in
// while sends wait for the NIC. In our own simulator (libsched/simulate), the wire carries the bytes of a message. Here
// the receiver's CPU pays for them on arrival, matched or not:
//
//   send       CPU o + (m-1) O, NIC g + (m-1) G; message arrives o + L later; up to S bytes the send ends at once
//   message    CPU o + (m-1) max(O, G), NIC g + (m-1) G; ends the oldest receive that matches, or waits for a receive
//   receive    costs nothing
//   calc       CPU
//
// Above S bytes, a send ends when its message meets the receive. A rank may have several CPUs and NICs. Wildcards and
// receives of other sizes work as in the original, including its defects, which goal_player.cc names. Times agree with
// the original to the nanosecond, unless more than 16 ops of a rank become due at once. The original sorts these by an
// unstable algorithm.
// (Hoefler, Schneider, Lumsdaine: "LogGOPSim", HPDC 2010.)
#pragma once

#include <cstdint>
#include <functional>

#include "bindings/cli/goal/goal.h"
#include "libsched/simulate/simulated_round.h"

namespace lsched {

/// Plays a program with S and the costs of the outermost level of `where`. A calc of n takes n ns. `progress`, which
/// may be empty, is called now and then with the number of messages. In the report, `finish` is the time at which the
/// last CPU of a rank is free. Waits for NICs are not counted.
///
/// Failures, which name the lowest rank: ARGUMENT (a peer or an op that does not exist), STATE (a receive without a
/// message, an op that is never due), UNMATCHED (a message that is never received), UNSUPPORTED (too long).
result<simulation_report> play_goal(const goal& program, const machine& where,
                                    const std::function<void(std::uint64_t)>& progress = {});

}  // namespace lsched
