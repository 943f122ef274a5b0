// Placement: converts a schedule whose buffers are all in host memory to an equivalent schedule for a caller that has
// buffers in device memory. (docs/reference/device.md)
//
// Only computes access device memory, and a device carries out these computes. So messages from or to device memory
// pass through staging memory (pinned host memory), and copies are added as ordinary ops. The operands of a compute on
// the device are in device memory or staging memory. A compute with an operand in device memory runs on the device.
// Some ranks may use devices while other ranks do not, because placement does not change messages.
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
  /// True if the device of this rank can read the device memory of peers. Then the device reads long messages directly
  /// from the peer's memory, so ops that read such messages must be able to fire at once.
  bool reads_peers = false;
  /// True if the functions of the instance let the device process buffers in device memory (functions.h).
  bool has_device_functions = false;
};

/// Maximum size in bytes of a message that a device reads directly from staging memory. A longer message is first
/// copied to device memory, concurrently with other work of the device. (docs/inside/cuda.md, 11)
inline constexpr std::uint64_t k_most_read_from_staging = std::uint64_t{1} << 20;

/// Minimum size in bytes of a message that a peer reads directly from this rank's device memory. The sender of such a
/// message has to wait for the reader. A shorter message is copied, so that the sender does not wait.
inline constexpr std::uint64_t k_least_shown = std::uint64_t{64} << 10;

/// Returns the placed schedule. Returns `program` itself if all buffers of the caller are in host memory, or if
/// `program` is already placed for `where`. Errors: UNSUPPORTED if device memory is used and the schedule is partial,
/// has inputs or outputs that are lists, or has functions without support for devices. UNSUPPORTED also if functions
/// use both host memory and device memory of the caller, or if a reduction of the application would need device memory.
/// ARGUMENT if `program` is already placed for other memory spaces, or if messages need more than 65535 buffers.
result<schedule_ptr> placed(schedule_ptr program, const caller_spaces& where);

}  // namespace lsched
