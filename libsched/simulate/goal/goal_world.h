// Worlds of schedules as GOAL, and GOAL programs as worlds of schedules.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "libsched/schedule/schedule.h"
#include "libsched/simulate/goal/goal.h"

namespace lsched {

struct simulation;
struct simulation_record;

/// What GOAL cannot say and somebody has to decide.
struct goal_scenario {
  rank initiator = 0;        ///< policy solo: the rank whose call starts the round; majority: drawn, as in round 1
  double ns_per_byte = 0.1;  ///< how long a compute op takes for each byte it writes; above 0
};

struct goal_export {
  goal program;
  std::string remark;  ///< what was decided; for to_goal_text
};

/// Round 1 of a world (rank r runs world[r]) as GOAL. A send stays a send, a receive a receive, of lists of
/// typical length and at least 1 byte; computes become calcs; nops, calls, captures and ops whose guard does not hold
/// calcs of 0. A guard takes a list of typical length 0 for empty.
///
/// GOAL has no or-dependencies, no signals and no ops that do not fire, so the round is played through once: the
/// scenario's rank calls (policy full: every rank), every rank has a contribution, a message takes one unit of time
/// and all else none. Of an op that needs fewer tokens than it has deps, the deps whose tokens came first become
/// "requires"; ops that did not fire are left out; signals are messages of 1 byte with tags above all payload's.
///
/// Failures: `argument` (no world, or a scenario without sense), `unmatched` (a round that does not end; the failure
/// names rank and op), `constraint` (tags that leave no room for signals).
result<goal_export> export_goal(std::span<const schedule_ptr> world, const goal_scenario& around = {});

/// The round what.instance that simulate_schedules(world, what, &record) played, in the words above: what fired first
/// there is what is required, and guards hold as they did there. Computes take what.where.compute, signals have the
/// bytes they had there; a rank that begins late, or whose call set something off, has a calc of that time first. Noise
/// and jitter are in the order of things only. `record` is of all ranks. Failures as above; `unmatched` if a message
/// was sent that nobody took.
result<goal_export> export_goal(std::span<const schedule_ptr> world, const simulation& what,
                                const simulation_record& record);

/// A schedule for every rank of a GOAL program, to be verified, simulated or run. GOAL says how much is moved, not
/// what: sends read one input of u8, receives write scratch of their own, a calc is a copy of as many bytes as take
/// its time. "a irequires b" becomes a dep on a nop in front of b. Messages of equal source, target and tag are paired
/// in the order of the file and get tags of their own; cpu and nic are dropped.
///
/// Failures, each naming rank and op: `unsupported` (receives from any rank or with any tag: who matches is not
/// known before it runs), `unmatched` (no partner, or one of another size), and what builder::compile refuses.
result<std::vector<schedule_ptr>> import_goal(const goal& program, const goal_scenario& around = {});

}  // namespace lsched
