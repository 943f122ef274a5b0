// A driver runs the engine of one rank, and decides when threads sleep. Each rank has one driver.
//
// Exactly one thread at a time owns the engine. A thread that waits runs the engine itself, so the latency path needs
// no wake-up of another thread. A thread that starts a round runs the engine while ops make progress, then releases the
// engine. The progress thread (offload/progress_thread.h, "auxiliary" in names) runs the engine while the application
// computes. No thread spins while nothing can happen. doorbell.h proves that no wake-up is lost, and
// docs/inside/threading.md lists every variable that threads share.
//
// To acquire the engine, a thread changes `owner_` from 0 to 1, and sets the doorbell's word `polling`. The owner then
// makes steps. To release the engine, the owner does the following:
//
//  1. If peers must ring the progress thread for messages, the owner clears `polling`, and makes one more step.
//  2. The owner changes `owner_` from 1 to 0.
//  3. If work was posted meanwhile, the thread acquires the engine again, and starts over.
//  4. If another thread should now run the engine, the thread wakes that thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "libsched/engine/engine.h"
#include "offload/idle_policy.h"

namespace lsched {

class driver {
 public:
  using clock = std::chrono::steady_clock;

  driver(engine& what, idle_policy policy)
      : engine_(what),
        bell_(what.net().bell()),
        direct_(what.net().direct()),
        policy_(policy),
        is_beside_device_(what.has_device()) {}
  driver(const driver&) = delete;
  driver& operator=(const driver&) = delete;

  /// Acquires the engine, without a time limit, runs `job` and releases the engine. Only for cold paths. Any thread
  /// except the engine's owner may call this function.
  void with_engine(const std::function<void()>& job);

  /// Starts the next round of an ordinary (not partial) instance and sets *round. Never blocks. If no other thread owns
  /// the engine, runs the engine in the calling thread. Returns STATE if a round is outstanding, or the error of a
  /// failed instance.
  status start(instance& inst, round_no* round);

  /// Binds the instance to the buffers in `memory` (engine::bind), and starts the next round. First waits until the
  /// calling thread owns the engine.
  status start(instance& inst, const binding& memory, round_no* round);

  /// Starts the next round, which begins when all work that is now in `stream` has completed. The instance must have a
  /// gate between rounds and streams (libsched/engine/round_gate.h). Returns BUSY if round_gate::k_most_ahead rounds
  /// are outstanding. At most one thread at a time may call this function for an instance.
  status start_behind(instance& inst, void* stream, round_no* round);

  /// Runs `job`, a short function that can post work to the engine. `job` returns true if it has posted work. If no
  /// other thread owns the engine, acquires the engine before `job`. So peers that send during `job` need not wake the
  /// progress thread.
  template <class Job>
  void run_posting(const Job& job) {
    const bool is_owner = try_acquire();
    if (is_owner) take_over();
    const bool has_posted = job();
    if (is_owner || (has_posted && try_acquire())) look_and_let_go();
  }

  /// Must be called after work was posted. If no other thread owns the engine, runs the engine in the calling thread.
  void run_posted() {
    if (try_acquire()) look_and_let_go();  // otherwise the owner finds the post after its release
  }

  /// Waits until `round` of the instance has ended. Returns TIMEOUT after `deadline`, or the error of a failed
  /// instance. Any number of threads may wait. Even if `deadline` has passed, polls once if no other thread owns the
  /// engine.
  status wait(const instance& inst, round_no round, clock::time_point deadline) {
    return wait({inst.finished, inst.verdict, round, &inst}, deadline);
  }

  /// Waits until the ranks have agreed on the instance, or the instance has failed.
  status wait(const common_step& commit, const instance& inst, clock::time_point deadline) {
    return wait({commit.finished, inst.verdict, 1, nullptr}, deadline);
  }

  /// Waits for a common step of the ranks, such as a commit. If `note` is not null, it is published to the other ranks
  /// during the wait.
  status wait(const common_step& what, clock::time_point deadline, const wait_note* note = nullptr) {
    return wait({what.finished, what.verdict, 1, nullptr, note}, deadline);
  }

  /// Attaches a device to the engine. First waits until the calling thread owns the engine. Any thread except the
  /// engine's owner may call this function.
  void attach(device& gpu);

  /// Starts a round, sets *round, and waits until the round has ended. Acquires the engine only for the wait. If the
  /// round cannot be started, leaves *round unchanged, and returns STATE (a round is outstanding) or the error of a
  /// failed instance.
  status run(instance& inst, round_no* round, clock::time_point deadline);

  /// The body of the progress thread. Returns when `stop` is set. Owns the engine while no other thread owns the
  /// engine. Sleeps while nothing happens.
  void serve(const std::atomic<bool>& stop);

  /// Wakes the progress thread, for example to check its stop flag.
  void wake_auxiliary() { ring(bell_, doorbell::auxiliary); }

  /// Makes one step of the engine in the calling thread. Returns true if the step made progress. Returns false without
  /// a step if another thread owns the engine.
  bool progress();

 private:
  using nanoseconds = std::chrono::nanoseconds;

  /// The event for which a thread waits: `finished` has reached `round`, or `verdict` is an error.
  struct goal {
    const std::atomic<round_no>& finished;
    const std::atomic<status>& verdict;
    round_no round;
    const instance* whose;  ///< instance of the awaited round, or null if the wait is not for a round
    /// Description of the wait, which is published to the other ranks. Null if the wait is for a round, or is not
    /// published.
    const wait_note* note = nullptr;

    /// Returns an address that identifies the wait, or null if the wait is not published to the other ranks.
    const void* subject() const { return whose != nullptr ? static_cast<const void*>(whose) : note; }
    bool is_over() const { return finished.load() >= round || verdict.load() != status::ok; }
    /// The verdict must be loaded first: an instance may fail after the round has ended without an error.
    status answer() const {
      const status failed = verdict.load();
      return finished.load() >= round ? status::ok : failed;
    }
  };

  status wait(const goal& what, clock::time_point deadline);
  bool try_acquire() { return owner_.load() == 0 && owner_.exchange(1) == 0; }
  status call_for_next(instance& inst, round_no& next);
  void take_over();
  bool looks_at_clock() const { return is_core_shared_ || policy_.is_crowded(); }
  void look_and_let_go();
  void let_go(nanoseconds* nap = nullptr);
  void set_alarm(std::uint64_t due_ns);
  bool auxiliary_misses(std::uint64_t due_ns) const;
  bool auxiliary_listens() const;
  bool is_left_to_callers() const;
  void expect_nothing();
  bool was_one_shut_out();
  bool announce_and_look();
  bool step();
  bool keep_polling(clock::time_point now);
  void note_look(clock::time_point now);
  bool lingers(clock::time_point now);
  void look_at_caller();
  void check_peers(clock::time_point now);
  void stand_aside();
  bool acquire_or_be_replaced();
  status drive(const goal& what, clock::time_point deadline);
  void note_long_wait(const goal& what, clock::time_point now);
  void take_back_note(const goal& what);
  void park(const goal& what, clock::time_point deadline);
  void wait_for_owner(const goal& what, clock::time_point deadline);
  status leave(const goal& what, status answer);
  nanoseconds longest_nap() const;
  nanoseconds nap_before(clock::time_point deadline, bool is_waiting);

  engine& engine_;
  doorbell& bell_;
  direct_sleep* const direct_;  ///< may be null
  const idle_policy policy_;
  std::atomic<std::uint32_t> owner_{0};
  std::atomic<std::uint32_t> contenders_{0};  ///< number of threads that wait for the engine
  std::atomic<bool> has_auxiliary_{false};
  std::atomic<bool> is_beside_device_;
  std::atomic<const void*> noted_{nullptr};  ///< goal::subject() of the wait that is published to the other ranks
  std::atomic<bool> shut_out_{false};        ///< a thread that was woken could not acquire the engine
  std::atomic<int> caller_{0};               ///< id of the thread that has started the last round
  /// Time at which the sleeping progress thread will make a step for a grace (activation.h). k_never if the progress
  /// thread may sleep longer than any grace. Only the progress thread writes this variable.
  std::atomic<std::uint64_t> alarm_ns_{k_never};
  std::uint64_t own_alarm_ns_ = k_never;  ///< copy of alarm_ns_, used only by the progress thread

  // Used only by the engine's owner:
  clock::time_point idle_since_{};
  bool is_idle_ = false;
  std::uint32_t yields_ = 0;       ///< number of yields since idle_since_
  std::uint32_t polls_ = 0;        ///< counts polls; the clock is usually read after every 16th poll
  clock::time_point last_look_{};  ///< time of the last poll without progress in this idle period; 0: none
  core_sharing sharing_{};
  bool is_core_shared_ = false;      ///< whether other programs used the core at the last poll
  clock::time_point noted_since_{};  ///< beginning of the published wait
  clock::time_point last_check_{};
  nanoseconds poll_nap_{0};  ///< time between polls of a transport that cannot ring the doorbell; grows while idle
  /// True if callers advance their own rounds, and the progress thread is not woken for rounds. Only the progress
  /// thread writes this variable.
  bool leaves_rounds_ = false;
  std::uint64_t last_rounds_ = 0;  ///< number of rounds that had ended at the progress thread's last poll
};

}  // namespace lsched
