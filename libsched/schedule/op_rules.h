// What makes one op of a schedule valid, whatever the others are. compile() refuses what these rules refuse; verify
// applies them again, to schedules that anybody may have made.
#pragma once

#include <optional>
#include <span>
#include <string>

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
};

/// Why the op is not valid; its text follows the op's name. Not whether its regions overlap, which takes to know what
/// buffers are the same memory.
std::optional<failure> validate_op(const op& what, const op_context& in);

/// Why a schedule may not have such lists or guards at all; or an empty string.
std::string validate_lists(std::span<const buffer> buffers, std::span<const guard> guards, bool is_synchronising,
                           bool is_partial);

}  // namespace lsched
