// A GOAL program: the interchange format of LogGOPSim and its relatives, as a value.
//
// Sends, receives and calculations of every rank, joined by two kinds of edges. No buffers, no reductions, no
// or-dependencies: goal_world.h says how schedules become GOAL and back. docs/goal.md describes the text
// form. (Hoefler, Siebert, Lumsdaine: "Group operation assembly language", ICPP 2009; Hoefler, Schneider, Lumsdaine:
// "LogGOPSim", HPDC 2010.)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
void sort_edges(goal_rank& of);

/// The text form. `remark`: lines of a comment, which goes into the first rank's block, the one place where every
/// reader allows it. Equal programs give equal texts.
std::string to_goal_text(const goal& program, std::string_view remark = {});

/// Reads the text form. Failures are `argument` and begin with "line L, column C: ". Comments are dropped and labels
/// become numbers. Takes at most some 16 bytes of memory for each byte of the text, whatever the text claims.
result<goal> parse_goal_text(std::string_view text);

}  // namespace lsched
