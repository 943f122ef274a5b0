// A task is work that the engine advances in each step, in addition to the rounds. The commits of a world are a task.
#pragma once

#include <atomic>
#include <string>

#include "libsched/transport/membership.h"
#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

/// The progress of an operation that several ranks perform together. Threads wait for the end of the operation as they
/// wait for round 1 of an instance. Any thread may access the members.
struct common_step {
  std::atomic<round_no> finished{0};
  std::atomic<status> verdict{status::ok};
  bool has_ended() const { return finished.load() != 0 || verdict.load() != status::ok; }
};

/// A task of the engine. Thread safety: only the engine's owner calls these functions. No function blocks.
class engine_task {
 public:
  virtual ~engine_task() = default;

  /// Advances the task as far as possible. Returns true if the task made progress.
  virtual bool advance() = 0;

  /// Returns true if the task is over. The engine then drops the task.
  virtual bool is_over() const = 0;

  /// Returns true if the task only serves rounds. Then no progress is expected soon.
  virtual bool is_idle() const { return false; }

  /// Handles the loss of a transport rank.
  virtual void lose(rank home) = 0;

  /// Describes what delays the commits of world `of`, and sets `*waits_for` to the member that delays them. Returns an
  /// empty text if this task has no commits of that world.
  virtual std::string describe_wait(const membership& of, rank* waits_for) const = 0;
};

}  // namespace lsched
