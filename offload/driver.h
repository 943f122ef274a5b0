// The driver: who runs the engine, and when he sleeps. One per rank.
//
// Exactly one thread at a time owns the engine. A thread that waits drives it in place, so the latency path has
// no hand-over; a thread that starts something runs it inline for as long as it moves, then lets go; the
// auxiliary thread (offload/progress_thread.h) takes over while the application computes. Nobody spins when there
// is nothing to do: see doorbell.h for why no wake-up is lost, docs/inside/threading.md for every crossing.
//
//     acquire: owner 0 → 1                    let go: polling = 0 if the progress thread is to be rung,
//     polling = 1, step, step, …                      and one more step; owner 1 → 0; again if something was
//                                                     posted meanwhile; then wake a successor if one is due
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
      : engine_(what), bell_(what.net().bell()), policy_(policy), is_beside_device_(what.has_device()) {}
  driver(const driver&) = delete;
  driver& operator=(const driver&) = delete;

  /// Runs `job` as the owner of the engine; waits for the ownership as long as it takes. For cold paths. Any
  /// thread but the owner.
  void with_engine(const std::function<void()>& job);

  /// Asks for the next round of an ordinary instance. STATE if one is outstanding or the instance has failed.
  /// Never blocks: runs it inline if the engine is free. Answers the round.
  status start(instance& inst, round_no* round);

  /// The same over other memory (engine::bind). Waits for the engine.
  status start(instance& inst, const binding& memory, round_no* round);

  /// The same behind what a stream has to do by now (round_gate.h); the instance has a gate. BUSY: k_most_ahead rounds
  /// are outstanding. One call at a time for an instance.
  status start_behind(instance& inst, void* stream, round_no* round);

  /// Runs `job`, which does not take long, and which posts what the engine has to look at and answers whether it has.
  /// Owns the engine from its beginning on if it is free: who sends to this rank meanwhile need not wake the auxiliary
  /// thread, because the caller looks at the end.
  template <class Job>
  void run_posting(const Job& job) {
    const bool is_owner = try_acquire();
    if (is_owner) take_over();
    const bool has_posted = job();
    if (is_owner || (has_posted && try_acquire())) look_and_let_go();
  }

  /// Runs the engine inline if it is free: something has been posted.
  void run_posted() {
    if (try_acquire()) look_and_let_go();  // otherwise the owner looks at posts after it has let go
  }

  /// Until `round` of the instance has ended. TIMEOUT after `deadline`; the instance's verdict if it has failed.
  /// Any number of threads. Makes at least one attempt at progress.
  status wait(const instance& inst, round_no round, clock::time_point deadline) {
    return wait({inst.finished, inst.verdict, round, &inst}, deadline);
  }

  /// Until the ranks have agreed upon the instance, or it has failed.
  status wait(const common_step& commit, const instance& inst, clock::time_point deadline) {
    return wait({commit.finished, inst.verdict, 1, nullptr}, deadline);
  }

  /// The same of a commit, say. `note` is for the other ranks while this rank waits, and may be null.
  status wait(const common_step& what, clock::time_point deadline, const wait_note* note = nullptr) {
    return wait({what.finished, what.verdict, 1, nullptr, note}, deadline);
  }

  /// Gives the engine a device. Waits for the engine. Any thread but the owner.
  void attach(device& gpu);

  /// Starts a round, *round, and waits for its end, without letting go of the engine in between. STATE if a round is
  /// outstanding or the instance has failed; *round is then unchanged.
  status run(instance& inst, round_no* round, clock::time_point deadline);

  /// The auxiliary thread's life: owns the engine while nobody else does, sleeps while nothing happens.
  void serve(const std::atomic<bool>& stop);

  /// Wakes the auxiliary thread, for example to let it see its stop flag.
  void wake_auxiliary() { ring(bell_, doorbell::auxiliary); }

  /// One pass by the caller. Answers whether anything moved; false also if another thread owns the engine.
  bool progress();

 private:
  using nanoseconds = std::chrono::nanoseconds;

  /// What a thread waits for: that so many rounds have ended, or a verdict.
  struct goal {
    const std::atomic<round_no>& finished;
    const std::atomic<status>& verdict;
    round_no round;
    const instance* whose;            ///< null: the wait is not for a round
    const wait_note* note = nullptr;  ///< of such a wait; null: the other ranks do not learn of the wait

    /// Tells waits apart; null: the other ranks do not learn of the wait.
    const void* subject() const { return whose != nullptr ? static_cast<const void*>(whose) : note; }
    bool is_over() const { return finished.load() >= round || verdict.load() != status::ok; }
    /// Loads the verdict first, because an instance may fail after the round has ended well.
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
  const idle_policy policy_;
  std::atomic<std::uint32_t> owner_{0};
  std::atomic<std::uint32_t> contenders_{0};  ///< threads that want the engine and cannot have it
  std::atomic<bool> has_auxiliary_{false};
  std::atomic<bool> is_beside_device_;
  std::atomic<const void*> noted_{nullptr};  ///< the subject of the wait that is on record for the other ranks
  std::atomic<bool> shut_out_{false};        ///< the auxiliary thread was awake and could not have the engine
  std::atomic<int> caller_{0};               ///< the thread that has started a round last

  // The owner's:
  clock::time_point idle_since_{};
  bool is_idle_ = false;
  std::uint32_t yields_ = 0;       ///< while idle
  clock::time_point last_look_{};  ///< that found nothing, since the engine was taken over; epoch: none
  core_sharing sharing_{};
  bool is_core_shared_ = false;      ///< as of the last look
  clock::time_point noted_since_{};  ///< of the wait on record
  clock::time_point last_check_{};
  nanoseconds poll_nap_{0};        ///< grows while a time-driven transport stays silent
  bool leaves_rounds_ = false;     ///< written by the auxiliary thread: it is not to be rung for rounds, and naps
  std::uint64_t last_rounds_ = 0;  ///< that it has seen
};

}  // namespace lsched
