// The contract of a gate: rounds of an instance that begin when a stream of a device has come so far, and streams that
// go on when rounds have ended. (docs/reference/device.md)
//
//     application: ask(stream, t) ─ call for t        engine: t is called for ─ is_open(t)? ─ round t ─ release(t)
//     application: wait(stream, t)                              stream: waits until release(t) or later
//
// A round that nobody asked for by a stream finds its gate open.
#pragma once

#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

class round_gate {
 public:
  /// Rounds that may be asked for and not have ended.
  static constexpr round_no k_most_ahead = 16;

  virtual ~round_gate() = default;

  // --- the application's side; any thread, one call at a time ---------------------------------------------------

  /// The round, which has not been called for, is to begin when all that is in the stream by now has been done. Never
  /// blocks. CONSTRAINT: a stream of another device; UNSUPPORTED: one that is being captured; ARGUMENT; DEVICE.
  virtual status ask(void* stream, round_no round) = 0;

  /// What is put into the stream from now on is done after release(round). Never blocks. PENDING: this device's streams
  /// cannot wait, and the caller has to. Others as ask().
  virtual status wait(void* stream, round_no round) = 0;

  // --- the engine's owner's ---------------------------------------------------------------------------------------

  /// OK: the round may begin. PENDING. DEVICE: the device has failed.
  virtual status is_open(round_no round) = 0;

  /// Rings this rank's doorbell when the gate of the round opens, if it is the first time; perhaps not if it is open
  /// already, so the caller looks once more. False: nobody will ring.
  virtual bool arm(round_no round) = 0;

  /// Streams that wait for rounds up to this one go on. Any thread.
  virtual void release(round_no round) = 0;
};

}  // namespace lsched
