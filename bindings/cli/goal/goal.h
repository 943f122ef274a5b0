// A GOAL program: the interchange format of LogGOPSim and its relatives, as a value.
//
// Sends, receives and calculations of every rank, joined by two kinds of edges. No buffers, no reductions, no
// or-dependencies; below stands how schedules become GOAL and back. docs/reference/goal.md describes the text form.
// (Hoefler, Siebert, Lumsdaine: "Group operation assembly language", ICPP 2009; Hoefler, Schneider, Lumsdaine:
// "LogGOPSim", HPDC 2010.)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libsched/schedule/schedule.h"
#include "ops/status.h"

namespace lsched {

enum class goal_kind : std::uint8_t { send, recv, calc };

/// As a receive's peer: from any rank; as a tag: any tag. Who matches is decided while the program runs.
inline constexpr std::uint32_t k_goal_any = 0xffffffff;

struct goal_op {
  std::uint64_t size = 0;  ///< bytes; of a calc: units of time, nanoseconds by convention
  std::uint32_t peer = 0;  ///< below the number of ranks, or any; 0 for a calc
  std::uint32_t tag = 0;   ///< 0 for a calc
  goal_kind kind = goal_kind::calc;
  std::uint8_t cpu = 0;
  std::uint8_t nic = 0;  ///< 0 for a calc
  friend bool operator==(const goal_op&, const goal_op&) = default;
};

/// `after` starts once `before` has finished ("requires"), or has started ("irequires"). Indices of the rank's ops.
struct goal_edge {
  std::uint32_t before = 0;
  std::uint32_t after = 0;
  bool on_start = false;
  friend bool operator==(const goal_edge&, const goal_edge&) = default;
};

struct goal_rank {
  std::vector<goal_op> ops;
  std::vector<goal_edge> edges;  ///< grouped by `before`, in each group "requires" first; then as written
  friend bool operator==(const goal_rank&, const goal_rank&) = default;
};

struct goal {
  std::vector<goal_rank> ranks;
  friend bool operator==(const goal&, const goal&) = default;
};

/// Puts edges into the order that goal_rank asks for, without changing their order within a group.
void sort_edges(goal_rank& program);

/// The text form. `remark`: lines of a comment, which goes into the first rank's block, the one place where every
/// reader allows it. Equal programs give equal texts.
std::string to_goal_text(const goal& program, std::string_view remark = {});

/// Whether the text begins as one of that form does, behind comments.
bool is_goal_text(std::string_view text);

/// Reads the text form. Failures are `argument` and begin with "line L, column C: ". Comments are dropped and labels
/// become numbers. Takes at most some 16 bytes of memory for each byte of the text, whatever the text claims.
result<goal> parse_goal_text(std::string_view text);

// --- schedules ---------------------------------------------------------------------------------------------------

struct simulation;
struct simulation_record;

/// What GOAL cannot say and somebody has to decide.
struct goal_scenario {
  rank initiator = 0;        ///< where calls start a round: the first rank whose call does, if it is a candidate
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
/// GOAL has no or-dependencies, no signals and no ops that do not fire, so the round is simulated: as many candidates
/// call as it takes, from the initiator on (policy full: every rank), every rank has a contribution, a message takes
/// one unit of time and all else none. Of an op that needs fewer tokens than it has deps, the deps whose tokens came
/// first become "requires"; ops that did not fire are left out; signals are messages of 1 byte with tags above all
/// payload's.
///
/// Failures: `argument` (no world, or a scenario without sense), `unmatched` (a round that does not end; the failure
/// names the rank), `constraint` (tags that leave no room for signals).
result<goal_export> export_goal(std::span<const schedule_ptr> world, const goal_scenario& scenario = {});

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
/// in the order of the file and get tags of their own; a receive may have room for more than is sent; cpu and nic are
/// dropped.
///
/// Failures, each naming rank and op: `unsupported` (receives from any rank or with any tag: who matches is not
/// known before it runs), `unmatched` (no partner, or a receive that is too small), and what builder::compile refuses.
result<std::vector<schedule_ptr>> import_goal(const goal& program, const goal_scenario& scenario = {});

}  // namespace lsched
