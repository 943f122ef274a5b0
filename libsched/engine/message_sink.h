// The interface of an object that has edges but no schedule, such as a mailbox. The engine passes the completions of
// the object's links to the object.
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

  /// Returns whether the sink has attached its edges to the endpoint under the id `instance`.
  virtual bool owns(std::uint32_t instance) const = 0;

  /// Handles a completion of one of the sink's links.
  virtual void arrived(const completion& news) = 0;

  /// Handles the loss of a member.
  virtual void lose(rank member) = 0;

  /// Handles the departure of a member, which has destroyed its end (cancellation::is_departure). Messages up to `last`
  /// may still arrive. If `last` is empty, all messages have arrived.
  virtual void leave(rank member, std::optional<round_no> last) = 0;

  /// Handles a failure of the transport. `culprit` is the transport rank to blame, or k_no_rank.
  virtual void fail(status why, rank culprit) = 0;
};

}  // namespace lsched
