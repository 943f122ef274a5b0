// An endpoint reports errors of its transport, and lost peers, through this interface (docs/inside/transport.md).
#pragma once

#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

/// Transports that cannot fail, and that cannot detect lost peers, use the functions of this base class.
/// endpoint::take_loss() also reports each lost peer that the endpoint has found.
class endpoint_liveness {
 public:
  virtual ~endpoint_liveness() = default;

  /// Returns OK, or the error that made the transport fail.
  virtual status health() const { return status::ok; }
  /// Returns the rank to blame if the transport has failed: the sender of an unreadable message, or this rank if memory
  /// of its application could not be accessed. Returns k_no_rank if no rank is to blame.
  virtual rank culprit() const { return k_no_rank; }

  /// Searches for peers that have died, and for closed peers for which this rank still waits. Records these peers as
  /// lost. Returns the first lost rank on record, or k_no_rank. Also reports departures (cancellation::is_departure).
  /// This function makes system calls, so it should be called only when the rank is idle. If it reads an event that
  /// only poll() can report, it rings this rank's own bell, because the rank may be about to sleep.
  virtual rank find_dead_peer() { return k_no_rank; }

  /// Returns whether the loss of a rank is on record.
  virtual bool is_lost(rank who) const {
    static_cast<void>(who);
    return false;
  }

  /// Returns the rank that was lost after exactly `others` other ranks, or k_no_rank if there is no such loss yet. Any
  /// thread may call this function.
  virtual rank lost_after(rank others) const {
    static_cast<void>(others);
    return k_no_rank;
  }
};

}  // namespace lsched
