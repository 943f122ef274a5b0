// Checks the ops of a schedule, and computes the op fields that follow from the rest of the schedule. compile() refuses
// schedules that fail the checks. The verifier repeats the checks, because schedules may come from untrusted sources.
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

/// Returns true if the compressed sparse rows of deps are sound: `first` defines consecutive rows that cover `next`.
bool has_sound_rows(const schedule::parts& content);

/// Returns a failure if the op is not valid. The error text does not name the op; callers put its name in front.
std::optional<failure> validate_op(const op& o, const op_context& in);

/// Returns two ops, in ascending order, that have the same peer, kind and tag. Returns nullopt if no such ops exist.
std::optional<std::pair<op_id, op_id>> find_tag_clash(std::span<const op> ops);

/// Checks `guards`, and the lists in `buffers`. The other arguments are properties of the schedule. Returns an error
/// text, or an empty text if all lists and guards are valid.
std::string validate_lists(std::span<const buffer> buffers, std::span<const guard> guards, bool is_synchronising,
                           bool is_partial);

/// Sets op::in_place, releases_a and releases_b of all ops. These fields follow from the rest of `content`. Compute ops
/// may read a received payload in the transport's memory, without a copy to the target buffer, if no other op accesses
/// any part of the payload. Each of these compute ops must wait for the receive, and must read the payload exactly
/// once, as operand `a` or `b`.
///
/// For a send, releases_a is set if a copy produces the send's source only for this send. This means that no other op
/// writes or reads the source, and that the send is the only successor of the copy.
void mark_in_place(schedule::parts& content);

}  // namespace lsched
