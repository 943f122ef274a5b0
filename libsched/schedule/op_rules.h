// Rules for valid ops of a schedule, and computation of the op fields that follow from the rest of the schedule.
// compile() refuses schedules that break these rules. The verifier checks the rules again, because schedules may come
// from untrusted sources.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "libsched/schedule/schedule.h"
#include "ops/status.h"

namespace lsched {

/// The parts of a schedule that are needed to check an op.
struct op_context {
  world place;
  std::span<const buffer> buffers;
  std::span<const guard> guards;
  std::span<const parameter_values> parameters;
  bool is_partial = false;
  std::span<const placement> placements{};  ///< locations of all buffers; empty: no two buffers share memory
};

/// Returns true if the compressed sparse rows of deps (`first` and `next`) are consecutive and contain every dep once.
bool has_sound_rows(const schedule::parts& content);

/// Returns a failure if the op is not valid. Callers put the name of the op in front of the error text.
std::optional<failure> validate_op(const op& o, const op_context& in);

/// Returns a pair of ops with the same peer, kind and tag, in ascending order. Returns nullopt if all ops differ.
std::optional<std::pair<op_id, op_id>> find_tag_clash(std::span<const op> ops);

/// Returns an error text if lists or guards are not allowed in a schedule with these properties, else an empty string.
std::string validate_lists(std::span<const buffer> buffers, std::span<const guard> guards, bool is_synchronising,
                           bool is_partial);

/// Sets op::in_place, releases_a and releases_b of all ops from the rest of `content`. A received payload may stay
/// where the transport put it, without a copy to the target buffer, if computes are the only users of the payload and
/// its parts. Each of these computes must wait for the receive, and must read the payload exactly once, as operand `a`
/// or `b`.
///
/// For a send, releases_a is set if the send's source is a copy that is made only for this send. That means: the copy
/// is the only op that writes the source, and the send is the only op that reads the source and the only successor of
/// the copy.
void mark_in_place(schedule::parts& content);

}  // namespace lsched
