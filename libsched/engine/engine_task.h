// Work that the engine carries on in its steps besides rounds, such as the commits of a world.
#pragma once

#include <atomic>
#include <string>

#include "libsched/transport/membership.h"
#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

/// How far something has come that the ranks do together: what a thread waits for. As of an instance whose only round
/// is 1. Any thread.
struct common_step {
  std::atomic<round_no> finished{0};
  std::atomic<status> verdict{status::ok};
  bool has_ended() const { return finished.load() != 0 || verdict.load() != status::ok; }
};

/// The engine's owner calls it. Nothing here blocks.
class engine_task {
 public:
  virtual ~engine_task() = default;

  /// As far as it goes now. Answers whether anything moved.
  virtual bool advance() = 0;

  /// Whether there is nothing to wait for any more. The engine forgets it then.
  virtual bool is_over() const = 0;

  /// A rank of the transport is lost.
  virtual void lose(rank home) = 0;

  /// For people: what keeps the world's commits, if this task is about them, and the member that they wait for.
  virtual std::string describe_wait(const membership& of, rank* waits_for) const = 0;
};

}  // namespace lsched
