// The interface of a device (a GPU), which owns device memory and executes the ops that access this memory. The pass
// place() (libsched/place) adapts schedules to a device. See docs/reference/device.md.
//
// Thread safety: only the engine's owner calls these functions, unless a comment permits any thread. poll() reports
// completed jobs; there are no callbacks. Each submitted job is executed once and reported once. Only drain() and
// copy_at_once() block. The resources of all jobs are reserved when an instance is created, so submit() never fails.
//
// A failure of the device is permanent: from then on, health() returns DEVICE. poll() reports a job of a failed device
// only when that job can no longer write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "libsched/engine/device_memory.h"
#include "libsched/engine/round_gate.h"
#include "ops/kernel.h"
#include "ops/sparse_job.h"
#include "ops/status.h"

namespace lsched {

/// A compute op for the device. The operands are in device memory, or in host memory that the device can access. The
/// sums that the op reads (operand s) are in host memory.
struct device_job {
  kernel what = kernel::none;
  dtype type = dtype::u8;
  kernel_call call{};
  const sparse_job* sparse = nullptr;  ///< the device's part of a function call (functions.h); null: call a kernel
  std::uint64_t cookie = 0;            ///< returned by poll() when the job has ended
};

class device {
 public:
  virtual ~device() = default;

  /// Returns a human-readable name, such as "NVIDIA H100 80GB HBM3 (device 0)".
  virtual std::string name() const = 0;

  /// Returns the memory of this device. The result lives as long as the device. Any thread may call this function.
  virtual device_memory& memory() = 0;

  // --- cold path: commit and removal ------------------------------------------------------------------------------

  /// Copies from or to device memory, or writes zeros if `from` is null, and waits for completion. On failure, the
  /// target may be partly written.
  virtual status copy_at_once(std::byte* to, const std::byte* from, std::uint64_t bytes) = 0;

  /// Reserves resources for `jobs` more concurrent jobs, each with operands of at most `most_elements` elements.
  /// On failure, returns DEVICE or NO_MEMORY and reserves nothing.
  virtual status reserve(std::uint32_t jobs, std::uint64_t most_elements) = 0;
  virtual void unreserve(std::uint32_t jobs) = 0;

  // --- data path --------------------------------------------------------------------------------------------------

  virtual void submit(const device_job& job) = 0;

  /// Writes the cookies of up to `out.size()` newly completed jobs to `out`, and returns their number. Data that these
  /// jobs have written to staging memory is then visible to the caller.
  virtual std::size_t poll(std::span<std::uint64_t> out) = 0;

  /// Makes the device ring this rank's doorbell when the next job in flight ends. If that job has already ended, the
  /// doorbell might not ring, so the caller must call poll() once more after arm(). Returns false if the doorbell will
  /// not ring: the caller must then keep polling.
  virtual bool arm() = 0;

  /// Creates a gate (round_gate.h), with which rounds wait for streams of the device, and streams wait for rounds.
  /// Returns null if no memory is left or the device has failed. Not called on the data path.
  virtual std::unique_ptr<round_gate> make_gate() = 0;

  /// Returns OK, or DEVICE after a failure.
  virtual status health() const = 0;
  /// Returns the text of the device's failure. Before a failure, returns the reason for the last refused request.
  virtual std::string failure_words() const = 0;

  /// Waits until every job has ended, for some seconds at most. If a job takes longer, the device assumes that the job
  /// hangs. Memory that this job may still write is never freed. Called by the engine's destructor.
  virtual void drain() = 0;
};

}  // namespace lsched
