// The interface of a gate between the rounds of an instance and the streams of a device. With a gate, a round begins
// only when a stream has reached a certain point, and a stream continues only when a round has ended. See
// docs/reference/device.md.
//
//     application: ask(stream, t) ─ call for t        engine: call for t arrives ─ is_open(t)? ─ round t ─ release(t)
//     application: wait(stream, t)                              stream: waits until release(t) or later
//
// If ask() was not called for a round, the gate is open for this round.
#pragma once

#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

class round_gate {
 public:
  /// Maximum number of unfinished rounds for which ask() was called.
  static constexpr round_no k_most_ahead = 16;

  virtual ~round_gate() = default;

  // --- application's side: any thread, one call at a time ---------------------------------------------------------

  /// Delays `round` until all work that is now in the stream has completed. Must be called before the round is started.
  /// Never blocks. Returns CONSTRAINT for a stream of another device, UNSUPPORTED for a stream in capture mode,
  /// ARGUMENT for an invalid stream, and DEVICE if the device has failed.
  virtual status ask(void* stream, round_no round) = 0;

  /// Work that is put into the stream after this call does not start before release(round). Never blocks. Returns
  /// PENDING if streams of this device cannot wait: the calling thread must then wait instead. Other errors are those
  /// of ask().
  virtual status wait(void* stream, round_no round) = 0;

  // --- side of the engine's owner ---------------------------------------------------------------------------------

  /// Returns OK if the round may begin, PENDING if it must wait, and DEVICE if the device has failed.
  virtual status is_open(round_no round) = 0;

  /// Makes this rank's doorbell ring when the gate of the round opens. Only the first call for a round has an effect.
  /// If the gate is already open, the doorbell might not ring, so the caller must call is_open() once more. Returns
  /// false if the doorbell will not ring.
  virtual bool arm(round_no round) = 0;

  /// Resumes all streams that wait for `round` or an earlier round. Any thread may call this function.
  virtual void release(round_no round) = 0;
};

}  // namespace lsched
