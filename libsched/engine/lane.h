// The interface of a lane: a pool of helper threads for large arithmetic. See docs/inside/threading.md.
//
// Thread safety: only the engine's owner calls these functions. poll() reports completed jobs; there are no callbacks.
// Each accepted job is executed once and reported once. Only drain() blocks. A lane may refuse any job. The engine's
// owner then computes the job at once.
//
// While a job is in flight, its operands do not change, and only the lane accesses its target. If a job ends while the
// engine's owner may be asleep, the lane rings this rank's doorbell, as an incoming message does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ops/kernel.h"

namespace lsched {

/// A call of an elementwise kernel. The bits of the result do not depend on how the job is divided.
struct lane_job {
  kernel_fn run = nullptr;
  kernel_call call{};
  std::size_t element_bytes = 1;
  std::uint64_t cookie = 0;  ///< returned by poll() when the job has ended

  /// Computes elements [first, first + count).
  void run_part(std::uint64_t first, std::uint64_t count) const {
    const auto moved = [by = first * element_bytes](auto* data) { return data == nullptr ? nullptr : data + by; };
    kernel_call part = call;
    part.a = moved(call.a), part.b = moved(call.b), part.c = moved(call.c);
    part.count = count;
    run(part);
  }
};

class lane {
 public:
  virtual ~lane() = default;

  /// Returns a human-readable name, such as "2 oneTBB workers".
  virtual std::string name() const = 0;

  /// Returns the minimum operand size, in bytes, for which submit() saves time. The value is constant and at least 1.
  virtual std::uint64_t least_bytes() const = 0;

  /// Submits a job. Returns false if the lane refuses the job.
  virtual bool submit(const lane_job& job) = 0;

  /// Writes the cookies of up to `out.size()` newly completed jobs to `out`, and returns their number. The results of
  /// these jobs are then visible to the caller.
  virtual std::size_t poll(std::span<std::uint64_t> out) = 0;

  /// Computes a part of a job on the calling thread. A part takes about ten microseconds. Returns false if no part is
  /// left to start. The caller can then sleep.
  virtual bool help() = 0;

  /// Waits until every job has ended. poll() still reports these jobs. Called by the engine's destructor.
  virtual void drain() = 0;
};

}  // namespace lsched
