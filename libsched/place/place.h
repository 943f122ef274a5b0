// Placement: turns a schedule whose buffers are all in host memory into an equivalent schedule for a caller with
// buffers in device memory. (docs/reference/device.md)
//
// Only computes access device memory, and a device carries them out. So messages from or into device memory go through
// staging memory, by copies that are ordinary ops. A compute on the device has its operands in device or staging
// memory. Computes run where their operands are. Ranks need not agree which of them use devices, because messages do
// not change.
//
// Placement is a pure function. The result is an ordinary schedule, which follows the rules of op_rules.h and which
// verify can prove.
#pragma once

#include <vector>

#include "libsched/schedule/schedule.h"
#include "ops/status.h"

namespace lsched {

/// Memory spaces of the caller's buffers, host or device, in the builder's order.
struct caller_spaces {
  std::vector<memory_space> inputs, outputs;
  /// True if this rank's device reads device memory of peers. Messages that are long enough are then read from there,
  /// and the ops that read them must be able to fire at once.
  bool reads_peers = false;
  /// True if the instance's functions leave work on device memory to the device (functions.h).
  bool has_device_functions = false;
};

/// Greatest message, in bytes, that a device reads from staging memory. A longer message is copied to the device first,
/// concurrently with other work of the device. (docs/inside/cuda.md, 11)
inline constexpr std::uint64_t k_most_read_from_staging = std::uint64_t{1} << 20;

/// Least message, in bytes, that a peer reads from device memory. The sender of such a message has to wait for the
/// reader, which shorter messages avoid by a copy.
inline constexpr std::uint64_t k_least_shown = std::uint64_t{64} << 10;

/// Returns the placed schedule. Returns `program` itself if all buffers of the caller are in host memory, or if it is
/// already placed for `where`. Errors: UNSUPPORTED if device memory is used and the schedule is partial, has lists of
/// the caller, or has functions without support for devices. UNSUPPORTED also if functions use both host and device
/// memory of the caller, or if arithmetic of the application needs device memory. ARGUMENT if the schedule is already
/// placed for other memory spaces, or if its messages need more than 65535 buffers.
result<schedule_ptr> placed(schedule_ptr program, const caller_spaces& where);

}  // namespace lsched
