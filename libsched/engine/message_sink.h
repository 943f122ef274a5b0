// The interface of an object that has edges (connections of the transport) but no schedule, such as a mailbox. The
// engine passes the completions of these edges to the object.
#pragma once

#include <cstdint>
#include <optional>

#include "libsched/transport/endpoint.h"
#include "libsched/transport/membership.h"

namespace lsched {

/// An object with edges. Thread safety: only the engine's owner calls these functions. No function blocks.
class message_sink {
 public:
  virtual ~message_sink() = default;

  virtual const membership& members() const = 0;

  /// Returns true if the sink has attached edges to the endpoint under the id `instance`.
  virtual bool owns(std::uint32_t instance) const = 0;

  virtual void arrived(const completion& news) = 0;

  virtual void lose(rank member) = 0;

  /// Handles the departure of a member (cancellation::is_departure). The member has destroyed its ends of the edges.
  /// Messages up to round `last` can still arrive. If `last` is empty, all messages have arrived.
  virtual void leave(rank member, std::optional<round_no> last) = 0;

  /// Ends all edges, because the transport has failed or a member has cancelled the instance. `culprit` is the
  /// transport rank to blame, or k_no_rank. Returns false if a peer still reads the memory of a send. The caller must
  /// then repeat the call, because such sends end only when no peer reads their memory.
  virtual bool fail(status why, rank culprit) = 0;
};

}  // namespace lsched
