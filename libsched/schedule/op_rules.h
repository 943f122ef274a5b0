// Rules for valid ops of a schedule, and fields of ops that follow from the rest of the schedule. compile() refuses
// schedules that break these rules. verify applies the rules again, because its schedules may be untrusted.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "libsched/schedule/schedule.h"
#include "ops/status.h"

namespace lsched {

/// The parts of a schedule to which an op refers.
struct op_context {
  world place;
  std::span<const buffer> buffers;
  std::span<const guard> guards;
  std::span<const parameter_values> parameters;
  bool is_partial = false;
  std::span<const placement> placements{};  ///< locations of buffers; empty: each buffer has memory of its own
};

/// Returns true if the compressed rows of edges are consecutive and cover all edges.
bool has_sound_rows(const schedule::parts& content);

/// Returns a failure if the op is not valid. Callers put the op's name in front of its text.
std::optional<failure> validate_op(const op& o, const op_context& in);

/// Returns two ops with the same peer, kind and tag, in ascending order, if there are any.
std::optional<std::pair<op_id, op_id>> find_tag_clash(std::span<const op> ops);

/// Returns an error text if the schedule must not have these lists or guards, else an empty string.
std::string validate_lists(std::span<const buffer> buffers, std::span<const guard> guards, bool is_synchronising,
                           bool is_partial);

/// Sets op::in_place, releases_a and releases_b of all ops from the rest of `content`. A payload may stay where the
/// transport put it, without a copy into its buffer, if only computes use it or parts of it. Each of these computes
/// waits for the receive, and reads the payload once, as operand `a` or `b`.
///
/// Also sets releases_a of every send whose source is a copy for this send alone. Then the copy is the only op that
/// writes the source, and the send is the only op that reads the source or follows the copy.
void mark_in_place(schedule::parts& content);

}  // namespace lsched
