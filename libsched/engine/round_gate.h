// The interface of a gate between the rounds of an instance and the streams of a device. A round begins when a stream
// has reached a point, and a stream continues when a round has ended. See docs/reference/device.md.
//
//     application: ask(stream, t) ─ call for t        engine: t is called for ─ is_open(t)? ─ round t ─ release(t)
//     application: wait(stream, t)                              stream: waits until release(t) or later
//
// If no stream has asked for a round, the round's gate is open.
#pragma once

#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

class round_gate {
 public:
  /// The maximum number of unfinished rounds that were asked for.
  static constexpr round_no k_most_ahead = 16;

  virtual ~round_gate() = default;

  // --- application's side: any thread, one call at a time ---------------------------------------------------------

  /// Asks that `round` begin when all work that is in the stream by now has completed. Must precede the call for the
  /// round. Never blocks. Returns CONSTRAINT for a stream of another device, UNSUPPORTED for a stream that is being
  /// captured, ARGUMENT or DEVICE.
  virtual status ask(void* stream, round_no round) = 0;

  /// Delays all work that is put into the stream from now on until release(round). Never blocks. Returns PENDING if
  /// streams of this device cannot wait, in which case the caller must wait. Other errors are those of ask().
  virtual status wait(void* stream, round_no round) = 0;

  // --- side of the engine's owner ---------------------------------------------------------------------------------

  /// Returns OK if the round may begin, PENDING if it must wait, and DEVICE if the device has failed.
  virtual status is_open(round_no round) = 0;

  /// Makes this rank's doorbell ring when the gate of the round opens. Only the first call for a round has an effect.
  /// The doorbell may not ring if the gate is already open, so the caller must call is_open() once more. Returns false
  /// if the doorbell will not ring.
  virtual bool arm(round_no round) = 0;

  /// Lets all streams continue that wait for `round` or an earlier round. Any thread.
  virtual void release(round_no round) = 0;
};

}  // namespace lsched
