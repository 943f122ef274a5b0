// Placement: from a schedule whose buffers are all in host memory to one that does the same where some of the caller's
// buffers are in device memory. (docs/reference/device.md)
//
// Device memory is touched by computes alone, which a device carries out. So what is sent from there, or received into
// it, goes through staging memory, by copies that are ops like any other; and a compute on the device has its operands
// in device or staging memory. Computes stay where their operands are. Which ranks use devices is not part of what
// ranks agree upon: messages stay as they are.
//
// Pure. What comes out is an ordinary schedule: verify proves it, and it holds the rules of op_rules.h.
#pragma once

#include <vector>

#include "libsched/schedule/schedule.h"
#include "ops/status.h"

namespace lsched {

/// Where the caller's buffers are, in the builder's order: host or device.
struct caller_spaces {
  std::vector<memory_space> inputs, outputs;
  /// Whether this rank's device reads device memory of peers: messages come from there then, if they are long enough,
  /// and who reads them must be able to fire at once.
  bool reads_peers = false;
  /// Whether the instance's functions leave to the device what touches device memory (functions.h).
  bool has_device_functions = false;
};

/// A message of up to so many bytes is read by a device where it has arrived; a longer one is copied to the device
/// first, beside whatever the device computes meanwhile. (docs/inside/cuda.md, 11)
inline constexpr std::uint64_t k_most_read_from_staging = std::uint64_t{1} << 20;

/// Shorter messages from device memory are not read there: their sender would have to wait for the reader.
inline constexpr std::uint64_t k_least_shown = std::uint64_t{64} << 10;

/// `program` itself where all is in host memory. UNSUPPORTED: it is partial, or has lists, functions that do without
/// devices, or arithmetic of the application's where device memory is concerned; or its functions are to use both host
/// and device memory of the application's. ARGUMENT: it is placed already, and the caller's buffers are
/// elsewhere; or there are too many messages for 65535 buffers.
result<schedule_ptr> placed(schedule_ptr program, const caller_spaces& where);

}  // namespace lsched
