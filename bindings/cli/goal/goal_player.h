// Simulates a GOAL program by the rules of the main branch of LogGOPSim.
//
// An op that is due occupies its CPU. A send or a message also occupies a NIC, which sends and receives independently.
// If the CPU or the NIC is busy, the op tries again when both are free, and occupies neither until then. So messages
// can arrive while sends wait for the NIC. In our own simulator (libsched/simulate), the time per byte is spent on the
// wire. Here it is spent on the receiver's CPU when the message arrives, even if no receive is posted. The costs of m
// bytes:
//
//   send       CPU o + (m-1) O, NIC g + (m-1) G; message arrives o + L later; up to S bytes the send ends at once
//   message    CPU o + (m-1) max(O, G), NIC g + (m-1) G; ends the oldest receive that matches, or waits for a receive
//   receive    costs nothing
//   calc       CPU
//
// Above S bytes, a send ends when its message meets the receive. A rank may have several CPUs and NICs. Wildcards, and
// receives whose size differs from the send, work as in the original. This includes the original's defects, which
// goal_player.cc names. Times are equal to those of the original to the nanosecond, unless more than 16 ops of a rank
// become due at once: the original sorts such ops by an unstable algorithm.
// (Hoefler, Schneider, Lumsdaine: "LogGOPSim", HPDC 2010.)
#pragma once

#include <cstdint>
#include <functional>

#include "bindings/cli/goal/goal.h"
#include "libsched/simulate/simulated_round.h"

namespace lsched {

/// Simulates a program with the limit S and the costs of the outermost level of `where`. A calc of n takes n ns.
/// `progress`, which may be empty, is called from time to time with the number of messages so far. In the report,
/// `finish` is the time at which the last CPU of a rank is free. Waits for NICs are not counted.
///
/// Failures, which name the lowest rank: ARGUMENT (a peer or an op that does not exist), STATE (a receive without a
/// message, an op that is never due), UNMATCHED (a message that is never received), UNSUPPORTED (the time is too long).
result<simulation_report> play_goal(const goal& program, const machine& where,
                                    const std::function<void(std::uint64_t)>& progress = {});

}  // namespace lsched
