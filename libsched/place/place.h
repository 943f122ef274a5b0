// Placement converts a schedule with all buffers in host memory to an equivalent schedule. The new schedule is for a
// caller whose buffers are in device memory (docs/reference/device.md).
//
// A compute op with an operand in device memory runs on the device. All its operands must be in device memory or in
// staging memory (pinned host memory). No other op accesses device memory, so messages from or to device memory pass
// through staging memory. Placement adds the necessary copies as ordinary ops. It does not change messages, so some
// ranks may use devices while others do not.
//
// Placement is a pure function. The result is an ordinary schedule, which satisfies the rules of op_rules.h and can be
// verified.
#pragma once

#include <vector>

#include "libsched/schedule/schedule.h"
#include "ops/status.h"

namespace lsched {

/// Memory spaces (host or device) of the caller's buffers, in the order in which the builder declared the buffers.
struct caller_spaces {
  std::vector<memory_space> inputs, outputs;
  /// True if this rank's device can read the device memory of peers. The device then reads long messages directly from
  /// the peer's memory. So an op that reads such a message must fire as soon as the message arrives.
  bool reads_peers = false;
  /// True if the functions of the instance support buffers in device memory (functions.h).
  bool has_device_functions = false;
};

/// Maximum size in bytes of a message that a device reads directly from staging memory. A longer message is first
/// copied to device memory, concurrently with other work of the device (docs/inside/cuda.md, section 11).
inline constexpr std::uint64_t k_most_read_from_staging = std::uint64_t{1} << 20;

/// Minimum size in bytes of a message that a peer reads directly from this rank's device memory. The sender of such a
/// message has to wait until the peer has read it. A shorter message is copied, so its sender does not wait.
inline constexpr std::uint64_t k_least_shown = std::uint64_t{64} << 10;

/// Returns the placed schedule. Returns `program` itself if all buffers of the caller are in host memory, or if
/// `program` is already placed for `where`. Returns UNSUPPORTED if device memory is used and the schedule is partial,
/// has lists as inputs or outputs, or has functions without device support. Also returns UNSUPPORTED if functions use
/// both host and device memory of the caller, or if an operand of a user-defined reduction would be in device memory.
/// Returns ARGUMENT if `program` is already placed for other memory spaces, or if the schedule would need more than
/// 65535 buffers.
result<schedule_ptr> placed(schedule_ptr program, const caller_spaces& where);

}  // namespace lsched
