// The growth of a world: this process opens larger worlds with new ranks, in the background (lsched_grow_begin). In
// this file, A is the world that grows, and B is the larger world. See docs/inside/growth.md.
//
//     thread       connect to the door ── invitation ── open B ──────────── wait ──── admission ──── end
//     stage        waiting                                      opened      cast           admitted   taken
//     application                                    lsched_grow casts ──────┘   lsched_grow takes ────┘
//
// The admission is the first commit of B. The commit succeeds on all ranks or on none. A rank makes this commit only
// after its application has called lsched_grow, so a rank that does not call prevents the admission. After the
// admission, the thread of each rank ends all waits in A with PEER. After a failure, B is closed, and the thread waits
// for the next invitation.
//
// Thread safety: any thread may call the functions. The owner must not destroy the object during a call.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "offload/joined_world.h"
#include "offload/open/door.h"

namespace lsched {

/// A world that a process has opened for a growth. The destructor closes the world.
class larger_world {
 public:
  virtual ~larger_world() = default;
  virtual joined_world& joined() = 0;
};

/// The functions by which a process takes part in a growth. Any thread may call them.
struct growth_calls {
  std::uint64_t build;  ///< hash of the version of the library, which doors compare
  /// Opens the world of an invitation. The limit applies to each step.
  std::function<result<std::unique_ptr<larger_world>>(const world& invited, const visit& through, const door_key& key,
                                                      std::chrono::nanoseconds limit)>
      open;
  std::function<void(const std::string& why)> note_failure;  ///< gets the reason of a failed attempt
};

class growth {
 public:
  using clock = driver::clock;

  /// Creates the growth of the world `grows`, and starts a thread that waits for begin(). Throws std::system_error if
  /// the system has no file descriptor or thread left.
  growth(joined_world& grows, growth_calls by);
  /// Ends the thread. Closes a larger world that was not taken.
  ~growth();
  growth(const growth&) = delete;
  growth& operator=(const growth&) = delete;

  /// Begins to open larger worlds. `house` is the door if this process has the door.
  void begin(const door_key& key, std::unique_ptr<door> house);

  const door_key& key() const { return key_; }

  /// Casts, which permits the admission of new ranks, and returns B after the admission. Returns null if no new rank
  /// was admitted until the deadline. Returns STATE if B was taken before or the growth has ended.
  result<std::unique_ptr<larger_world>> take(clock::time_point deadline);

  /// Decides at once whether a pending cast leads to an admission, and waits for the decision. Returns PEER if the
  /// world has grown, because calls in A are then too late. Returns TIMEOUT after the deadline.
  std::optional<failure> decide(clock::time_point deadline);

  /// Decides a pending cast, and ends the growth. Returns B if new ranks are admitted, else null. Returns TIMEOUT, and
  /// changes nothing, if no decision is made until the deadline. Returns STATE if B was taken before.
  result<std::unique_ptr<larger_world>> settle(clock::time_point deadline);

 private:
  enum class stage : std::uint8_t { waiting, opened, cast, admitted, taken, ended };

  void run();
  void grow();
  bool is_stopped() const { return is_stopping_.load(); }
  void stop();
  std::unique_ptr<larger_world> open_larger_world();
  bool await_cast();
  std::optional<failure> admit();
  void drop(const std::string& why);
  void pause();
  bool await_decision(std::unique_lock<std::mutex>& held, clock::time_point deadline);

  joined_world& grows_;
  const growth_calls by_;
  const descriptor stop_;
  door_key key_{};               ///< set by begin()
  std::unique_ptr<door> house_;  ///< set by begin(), then used only by the thread
  bool has_begun_ = false;       ///< used under the lock
  std::atomic<bool> is_stopping_{false};
  std::mutex lock_;
  std::condition_variable changed_;
  std::atomic<stage> stage_{stage::waiting};  ///< written under the lock
  std::unique_ptr<larger_world> larger_;      ///< B, from stage `opened` to stage `admitted`; written under the lock
  std::shared_ptr<announcement> admission_;   ///< the commit, only in stage `cast`; written under the lock
  int urgent_ = 0;                            ///< number of calls that wait for a decision; used under the lock
  std::string last_failure_;                  ///< only the thread uses this member
  int failures_ = 0;                          ///< number of attempts that have failed in a row
  std::thread thread_;                        ///< last member, because the thread uses the other members
};

/// Joins a growing world as a new rank. Repeats failed attempts until the deadline. `find_key` returns the latest key.
/// Returns TIMEOUT with the reason of the last attempt, or the first failure that a further attempt cannot repair.
result<std::unique_ptr<larger_world>> join_growing_world(const std::function<result<door_key>()>& find_key,
                                                         const growth_calls& by, growth::clock::time_point deadline);

}  // namespace lsched
