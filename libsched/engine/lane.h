// The contract of a lane: where large arithmetic runs beside the engine's owner. (docs/inside/threading.md)
//
// The engine's owner calls it, nobody else. Ends are reported by value; there are no callbacks. A job that is taken is
// done once and reported once; nothing is dropped, nothing blocks but drain(). A lane takes a job or refuses it, for
// whatever reason: what it refuses the engine computes at once, by itself.
//
// While a job is under way its operands stay as they are and its target is the lane's. When one ends on another thread,
// and the owner might sleep, the lane rings this rank's doorbell as a message would.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ops/kernel.h"

namespace lsched {

/// The call of an elementwise kernel: wherever it is cut, the bits are the same.
struct lane_job {
  kernel_fn run = nullptr;
  kernel_call call{};
  std::size_t element_bytes = 1;
  std::uint64_t cookie = 0;  ///< handed back when it has ended

  /// Elements [first, first + count) of it.
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

  /// For people: "2 oneTBB workers".
  virtual std::string name() const = 0;

  /// Bytes of one operand from which on a job is worth a submit(); at least 1. Constant.
  virtual std::uint64_t least_bytes() const = 0;

  /// False: refused, nothing has happened.
  virtual bool submit(const lane_job& job) = 0;

  /// The cookies of up to `out.size()` jobs that have ended since. What they have written is visible to the caller.
  virtual std::size_t poll(std::span<std::uint64_t> out) = 0;

  /// A part of a job, done by the caller, who has nothing better to do. Takes some ten microseconds. False: there is
  /// none that nobody has begun, and the caller may sleep.
  virtual bool help() = 0;

  /// Waits until every job has ended; poll() still reports them. For the end of an engine.
  virtual void drain() = 0;
};

}  // namespace lsched
