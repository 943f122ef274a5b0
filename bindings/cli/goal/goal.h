// A GOAL program as a value. GOAL is the interchange format of LogGOPSim and related simulators.
//
// A program has the sends, receives and calculations of every rank, joined by two kinds of edges. A program has no
// buffers, no reductions and no or-dependencies (ops that start after any one of several ops). The last part of this
// file converts between schedules and GOAL. docs/reference/goal.md describes the text form.
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

/// Wildcard for the peer or the tag of a receive. The matching message is known only when the program runs.
inline constexpr std::uint32_t k_goal_any = 0xffffffff;

struct goal_op {
  std::uint64_t size = 0;  ///< size of the message in bytes; for a calc (calculation): the time, by convention in
                           ///< nanoseconds
  std::uint32_t peer = 0;  ///< rank at the other end, or k_goal_any; 0 for a calc
  std::uint32_t tag = 0;   ///< 0 for a calc
  goal_kind kind = goal_kind::calc;
  std::uint8_t cpu = 0;
  std::uint8_t nic = 0;  ///< 0 for a calc
  friend bool operator==(const goal_op&, const goal_op&) = default;
};

/// An edge between two ops of the same rank. Ops are given by their indices. `after` starts once `before` has finished
/// ("requires") or has started ("irequires").
struct goal_edge {
  std::uint32_t before = 0;
  std::uint32_t after = 0;
  bool on_start = false;
  friend bool operator==(const goal_edge&, const goal_edge&) = default;
};

struct goal_rank {
  std::vector<goal_op> ops;
  /// Sorted by `before`. Among edges with the same `before`, "requires" precedes "irequires". Otherwise, the order is
  /// that of the text.
  std::vector<goal_edge> edges;
  friend bool operator==(const goal_rank&, const goal_rank&) = default;
};

struct goal {
  std::vector<goal_rank> ranks;
  friend bool operator==(const goal&, const goal&) = default;
};

/// Sorts edges into the order of goal_rank::edges. The sort is stable.
void sort_edges(goal_rank& program);

/// Returns the text form. The lines of `description` become comments in the block of the first rank, because all
/// parsers of GOAL accept comments there. Equal programs give equal texts.
std::string to_goal_text(const goal& program, std::string_view description = {});

/// Returns true if the text, after leading comments, begins like a GOAL text.
bool is_goal_text(std::string_view text);

/// Parses the text form. Failures have the status `argument`, and their texts begin with "line L, column C: ". Comments
/// are dropped and labels become numbers. Allocates at most about 16 bytes for each byte of the text, even if the text
/// declares more ranks or ops.
result<goal> parse_goal_text(std::string_view text);

// --- schedules ---------------------------------------------------------------------------------------------------

struct simulation;
struct simulation_record;

/// Parameters of the conversion that neither schedules nor GOAL programs contain.
struct goal_scenario {
  rank initiator = 0;        ///< rank that calls first; if the activation does not admit this rank, the next candidate
                             ///< calls first
  double ns_per_byte = 0.1;  ///< time of a compute op per byte written; above 0
};

struct goal_export {
  goal program;
  std::string description;  ///< description of the conversion's parameters, for to_goal_text
};

/// Exports round 1 of a world. Rank r runs world[r]. Sends and receives become GOAL sends and receives of at least 1
/// byte. A list, whose length depends on the data, gets its typical length. Compute ops become calcs. Nops, calls and
/// captures (which take a rank's contribution) become calcs that take no time. An op may have a guard, which is a
/// condition in the schedule (schedule.h). If the guard is false, the op becomes a calc that takes no time. A guard
/// that tests for an empty list uses the list's typical length.
///
/// GOAL has no or-dependencies, no signals, and no ops that do not start. So the round is simulated first, and the
/// program describes this execution. In the simulation, no more ranks call for the round than the activation policy
/// needs. These ranks are the first candidates in the cyclic order of ranks, beginning with `initiator`. With policy
/// `full`, every rank calls. Every rank has a contribution. A message takes one unit of time, and everything else takes
/// no time. If an op needs fewer tokens than it has deps, the deps whose tokens came first become "requires". Ops that
/// did not start are left out. Signals become messages of 1 byte, with tags above all tags of payload.
///
/// Fails with `argument` if there is no world, or if the scenario is invalid. Fails with `unmatched` if the round does
/// not end, and names the rank. Fails with `constraint` if no tags are left for signals.
result<goal_export> export_goal(std::span<const schedule_ptr> world, const goal_scenario& scenario = {});

/// Exports round `what.instance`, which simulate_schedules(world, what, &record) has simulated. The deps whose tokens
/// came first in the simulation become "requires". Ops whose guard was false in the simulation become calcs that take
/// no time. Compute ops take the time of what.where.compute, and signals have the size that the simulation assumes. If
/// a rank begins late, its program begins with a calc that lasts until the rank begins. If the call of a rank made an
/// op start, the rank's program begins with a calc that lasts until the call. Noise affects only the order of tokens.
/// `record` must cover all ranks. Fails like the other export_goal. Also fails with `unmatched` if a message was sent
/// but never received.
result<goal_export> export_goal(std::span<const schedule_ptr> world, const simulation& what,
                                const simulation_record& record);

/// Returns a schedule for every rank of a GOAL program, to be verified, simulated or run. GOAL gives the sizes of data
/// but not the contents. All sends therefore read one input of u8, and each receive writes a separate scratch range. A
/// calc becomes a copy of as many bytes as can be copied in the time of the calc. "a irequires b" means that `a` waits
/// only until `b` has started. So the conversion adds a nop before `b`, and makes `a` depend on this nop. Sends and
/// receives with equal source, target and tag are paired in the order of the file, and each pair gets a unique tag. A
/// receive may be longer than its send. `cpu` and `nic` are dropped.
///
/// Failures name rank and op. Fails with `unsupported` for a receive from any rank or with any tag, because its send is
/// known only when the program runs. Fails with `unmatched` for a send or receive without a partner, and for a receive
/// that is too short. Also returns the failures of builder::compile.
result<std::vector<schedule_ptr>> import_goal(const goal& program, const goal_scenario& scenario = {});

}  // namespace lsched
