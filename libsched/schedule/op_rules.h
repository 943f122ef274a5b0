// What makes the ops of a schedule valid, and what follows from them. compile() refuses what these rules refuse; verify
// applies them again, to schedules that anybody may have made.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "libsched/schedule/schedule.h"
#include "ops/status.h"

namespace lsched {

/// What an op refers to.
struct op_context {
  world place;
  std::span<const buffer> buffers;
  std::span<const guard> guards;
  std::span<const parameter_values> parameters;
  bool is_partial = false;
  std::span<const placement> placements{};  ///< where buffers lie; empty: each is memory of its own
};

/// Whether the rows of edges are one behind the other, and there is nothing else.
bool has_sound_rows(const schedule::parts& content);

/// Why the op is not valid; its text follows the op's name.
std::optional<failure> validate_op(const op& o, const op_context& in);

/// Two ops with the same peer, kind and tag, in ascending order.
std::optional<std::pair<op_id, op_id>> find_tag_clash(std::span<const op> ops);

/// Why a schedule may not have such lists or guards at all; or an empty string.
std::string validate_lists(std::span<const buffer> buffers, std::span<const guard> guards, bool is_synchronising,
                           bool is_partial);

/// Sets op::in_place, releases_a and releases_b of all ops from everything else in `content`. A payload may stay where
/// the transport has it, instead of being copied into its buffer, if all that ever happens to it, or to parts of it, is
/// to be the operand `a` or `b` of computes that wait for it, each of which reads it once.
///
/// And releases_a of sends whose source is a copy for them alone: the copy is the only op that writes there, and the
/// send the only one that comes after it or reads there.
void mark_in_place(schedule::parts& content);

}  // namespace lsched
