// The interface of a device (a GPU), which owns device memory and executes the ops that access this memory. The pass
// place() (libsched/place) adapts schedules to a device. See docs/reference/device.md.
//
// Thread safety: only the engine's owner calls these functions, except functions marked "any thread". poll() reports
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

#include "libsched/engine/round_gate.h"
#include "ops/kernel.h"
#include "ops/sparse_job.h"
#include "ops/status.h"

namespace lsched {

/// A compute op, with operands in device memory or in host memory that the device can access. The sums that the op
/// reads (operand s) are in host memory.
struct device_job {
  kernel what = kernel::none;
  dtype type = dtype::u8;
  kernel_call call{};
  const sparse_job* sparse = nullptr;  ///< the device's part of a function (functions.h); else null
  std::uint64_t cookie = 0;            ///< returned by poll() when the job has ended
};

class device {
 public:
  virtual ~device() = default;

  /// Returns a human-readable name, such as "NVIDIA H100 80GB HBM3 (device 0)".
  virtual std::string name() const = 0;

  /// Returns the memory space of the application's memory: host or device. Returns ARGUMENT if parts of the memory are
  /// in different spaces, on another device, or freed. Any thread.
  virtual result<memory_space> space_of(const std::byte* memory, std::uint64_t bytes) const = 0;

  // --- cold path: commit and removal ------------------------------------------------------------------------------

  /// Allocates memory in `space`, 256-byte aligned and uninitialized. Returns null if no memory is left. Does not wait
  /// for jobs in flight.
  virtual std::byte* allocate(memory_space space, std::uint64_t bytes) = 0;
  virtual void deallocate(std::byte* memory) = 0;

  /// Allocates device memory for the application, as allocate() does. Until take_back(), space_of() recognizes this
  /// memory.
  virtual std::byte* lend(std::uint64_t bytes) = 0;
  /// Frees memory from lend(). Returns false if the memory is not from lend() or was already freed.
  virtual bool take_back(std::byte* memory) = 0;

  /// Copies from or to device memory, or writes zeros if `from` is null, and waits for completion. On failure, the
  /// target may be partly written.
  virtual status copy_at_once(std::byte* to, const std::byte* from, std::uint64_t bytes) = 0;

  /// Reserves resources for `jobs` more concurrent jobs, each with operands of at most `most_elements` elements.
  /// Returns DEVICE or NO_MEMORY on failure, without a change.
  virtual status reserve(std::uint32_t jobs, std::uint64_t most_elements) = 0;
  virtual void unreserve(std::uint32_t jobs) = 0;

  // --- device memory that peers read directly, if supported -------------------------------------------------------

  /// Returns true if this device can read the device memory of transport rank `home`. Cold path.
  virtual bool reads_memory_of(rank home) = 0;

  /// Exposes device memory to peers. The memory stays exposed until hide() has been called as often as show(). Returns
  /// a location that peers pass to find_shown(), or 0 if peers cannot read the memory. Cold path.
  virtual std::uint64_t show(const std::byte* memory, std::uint64_t bytes) = 0;
  virtual void hide(std::uint64_t where) = 0;

  /// Maps memory that rank `home` has exposed. The mapping lives at least as long as the returned pointer. Returns null
  /// on failure; failure_words() then has the reason, and a later call may succeed. The first call for an allocation
  /// takes about 100 us.
  virtual std::shared_ptr<const std::byte> find_shown(rank home, std::uint64_t where, std::uint64_t bytes) = 0;

  /// Releases mappings of memory that is no longer exposed, or that belongs to a lost rank. Cold path.
  virtual void forget_gone() = 0;

  // --- data path --------------------------------------------------------------------------------------------------

  /// Returns true if the device can read `memory` directly, without a copy. `memory` must be staging memory of this
  /// rank or of a peer.
  virtual bool reaches(const std::byte* memory, std::uint64_t bytes) = 0;

  virtual void submit(const device_job& job) = 0;

  /// Writes the cookies of up to `out.size()` newly completed jobs to `out`, and returns their number. Data that these
  /// jobs have written to staging memory is then visible to the caller.
  virtual std::size_t poll(std::span<std::uint64_t> out) = 0;

  /// Makes the device ring this rank's doorbell when the next job in flight ends. If that job has already ended, the
  /// doorbell may not ring, so the caller must call poll() once more after arm(). Returns false if the doorbell will
  /// not ring: the caller must then keep polling.
  virtual bool arm() = 0;

  /// Creates a gate (round_gate.h), by which rounds wait for streams of the device, and streams for rounds. Returns
  /// null if no memory is left or the device has failed. Cold path.
  virtual std::unique_ptr<round_gate> make_gate() = 0;

  /// Returns OK, or DEVICE after a failure.
  virtual status health() const = 0;
  /// Returns the text of the device's failure. Before a failure, returns why the device has refused the last request.
  virtual std::string failure_words() const = 0;

  /// Waits until every job has ended, but at most some seconds. A job that takes longer is assumed to hang; the memory
  /// that it may write is then never freed. Called by the engine's destructor.
  virtual void drain() = 0;
};

}  // namespace lsched
