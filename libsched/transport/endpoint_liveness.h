// The state of a transport and of the peers that the transport reaches. (docs/inside/transport.md)
#pragma once

#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

/// Reports errors of a transport, and lost peers. The functions of this class are the implementation for transports
/// that cannot fail and cannot detect lost peers. A lost peer that the endpoint has found is also reported by
/// endpoint::take_loss().
class endpoint_liveness {
 public:
  virtual ~endpoint_liveness() = default;

  /// Returns OK, or the error that made the transport fail.
  virtual status health() const { return status::ok; }
  /// If an unreadable message has made the transport fail, returns the sender, else k_no_rank.
  virtual rank culprit() const { return k_no_rank; }

  /// Searches for peers that have died, or that have closed while this rank waits for them, and records them as lost.
  /// Returns the first lost rank on record, or k_no_rank. Also reports departures (cancellation). Calls the operating
  /// system, so this function should only be called in idle moments.
  virtual rank find_dead_peer() { return k_no_rank; }

  /// Returns whether the loss of a rank is on record.
  virtual bool is_lost(rank who) const {
    static_cast<void>(who);
    return false;
  }

  /// Returns the rank that was lost after exactly `others` other ranks, or k_no_rank if there is no such loss yet. Any
  /// thread.
  virtual rank lost_after(rank others) const {
    static_cast<void>(others);
    return k_no_rank;
  }
};

}  // namespace lsched
