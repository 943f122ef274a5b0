// What has edges without a schedule: it gets the completions of its links from the engine.
#pragma once

#include <cstdint>
#include <optional>

#include "libsched/transport/endpoint.h"
#include "libsched/transport/membership.h"

namespace lsched {

/// The engine's owner calls it, and nothing here blocks.
class message_sink {
 public:
  virtual ~message_sink() = default;

  virtual const membership& members() const = 0;

  /// Whether its edges are those of that attached instance.
  virtual bool owns(std::uint32_t instance) const = 0;

  /// One of its links has a completion.
  virtual void arrived(const completion& news) = 0;

  /// A member is lost.
  virtual void lose(rank member) = 0;

  /// A member has destroyed its end (cancellation::is_departure).
  virtual void leave(rank member, std::optional<round_no> last) = 0;

  /// The transport has failed, perhaps by a member's message.
  virtual void fail(status why, rank culprit) = 0;
};

}  // namespace lsched
