#include "offload/driver.h"

#include <sched.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "libsched/transport/no_cancellation.h"
#include "offload/cores.h"

namespace lsched {
namespace {

using namespace std::chrono_literals;

// Interval at which a waiting rank checks whether peers are dumping core. (If a process ends without a core dump, the
// transport reports the end.)
constexpr auto k_liveness_period = 50ms;
constexpr auto k_long_wait = 50us;        // time after which a wait is published to the other ranks
constexpr auto k_first_poll_nap = 50us;   // minimum sleep between polls of a transport that cannot ring the doorbell
constexpr auto k_longest_poll_nap = 1ms;  // maximum sleep between such polls
constexpr auto k_look_period = 1ms;       // period of the progress thread's polls while callers advance rounds
constexpr int k_last_looks = 8;           // maximum number of polls before the engine's owner releases the engine
constexpr int k_patience = 64;            // number of attempts to acquire the engine before a thread sleeps

}  // namespace

// --- ownership --------------------------------------------------------------------------------------------------

// The idle time is not reset. If several threads own the engine in turn without progress, their idle times are added.
// So all these threads go to sleep.
void driver::take_over() {
  last_look_ = {};
  if (bell_.polling.load() == 0) bell_.polling.store(1);
}

bool driver::step() {
  const bool moved = engine_.step();
  if (engine_.take_published() && bell_.sleepers.load() != 0) ring(bell_, doorbell::waiter, INT_MAX);
  return moved;
}

// Returns true if peers should ring the progress thread for messages when no thread polls.
bool driver::auxiliary_listens() const {
  return engine_.is_listening() && has_auxiliary_.load() && !is_left_to_callers();
}

// Returns true if callers poll for all outstanding work, so that the progress thread need not be rung.
bool driver::is_left_to_callers() const { return leaves_rounds_ && engine_.has_only_called_rounds(); }

// Publishes whether the progress thread must be rung for messages, clears `polling`, and arms the device. Then polls
// once more, because peers that read `polling` before it was cleared did not ring for their messages. Returns true if
// the poll made progress, or if the engine now listens for messages and did not before.
bool driver::announce_and_look() {
  const bool listened = engine_.is_listening();
  bell_.wanted.store(auxiliary_listens() ? 1 : 0);
  bell_.polling.store(0);
  engine_.arm_device();
  const bool moved = step();
  return moved || (engine_.is_listening() && !listened);
}

// Releases the engine, and wakes a sleeping waiter if there is one. If messages need not wake a thread, `polling` stays
// set. Peers read this word with every message, and each change would move its cache line between cores. The progress
// thread passes `nap`, and the function sets *nap to the time for which this thread may sleep. All other threads pass
// null. If such a thread releases the engine and the transport cannot ring, the function wakes the progress thread,
// which polls periodically. The function also wakes the progress thread if a grace passes before this thread would
// wake up. If the progress thread changes alarm_ns_ after the load, the progress thread either acquires the engine, or
// sets shut_out_.
void driver::let_go(nanoseconds* nap) {
  for (int turns = 1;; ++turns) {
    int looks = 0;
    while (auxiliary_listens() && announce_and_look() && ++looks < k_last_looks) {
    }
    const bool listens = engine_.is_listening();
    const bool is_looked_for = engine_.is_time_driven() && listens && !is_left_to_callers();
    const bool has_more = looks == k_last_looks || (is_looked_for && nap == nullptr);
    if (!listens || is_left_to_callers()) expect_nothing();
    const std::uint64_t due_ns = engine_.due_ns();
    if (nap != nullptr) {
      *nap = nap_before(clock::time_point::max(), false);
      set_alarm(due_ns);
    }
    owner_.store(0);
    if ((engine_.has_posts() || (turns < k_last_looks && was_one_shut_out())) && try_acquire()) {
      step();
      continue;
    }
    if (bell_.sleepers.load() != 0)
      ring(bell_, doorbell::waiter);
    else if (((has_more || auxiliary_misses(due_ns)) && has_auxiliary_.load()) || was_one_shut_out())
      ring(bell_, doorbell::auxiliary);
    return;
  }
}

// Called by the progress thread before it may sleep.
void driver::set_alarm(std::uint64_t due_ns) {
  if (std::exchange(own_alarm_ns_, due_ns) != due_ns) alarm_ns_.store(due_ns);
}

// Returns true if a grace passes at `due_ns` and the progress thread may sleep longer.
bool driver::auxiliary_misses(std::uint64_t due_ns) const { return due_ns != k_never && due_ns < alarm_ns_.load(); }

// Clears `wanted` and `shut_out_`. Called if no message could cause progress, or if callers poll for their own
// messages, so that peers need not ring. An earlier ring can be ignored, because the round of the message has ended, or
// the caller of that round polls or is a sleeper, which the owner rings.
void driver::expect_nothing() {
  if (bell_.wanted.load() != 0) bell_.wanted.store(0);
  if (shut_out_.load()) shut_out_.store(false);
}

// Returns true if a thread was woken after the owner's last poll, but could not acquire the engine: the progress
// thread, or a waiter that gives up. The owner should then poll again, because a few polls cost less than another
// wake-up.
bool driver::was_one_shut_out() { return shut_out_.load() && shut_out_.exchange(false); }

void driver::stand_aside() {
  contenders_.fetch_add(1);
  for (int i = 0; i < k_patience && owner_.load() != 0; ++i) sched_yield();
  contenders_.fetch_sub(1);
}

void driver::with_engine(const std::function<void()>& job) {
  while (!try_acquire()) stand_aside();
  take_over();
  struct release {  // releases the engine even if the job throws
    driver& owned;
    ~release() {
      owned.step();  // without this step, a rank that waits in a commit might never serve its older schedules
      owned.let_go();
    }
  } const at_end{*this};
  job();
}

void driver::attach(device& gpu) {
  with_engine([&] { engine_.use(gpu); });
  is_beside_device_.store(true);
  wake_auxiliary();  // because longest_nap() is now shorter
}

bool driver::progress() {
  if (!try_acquire()) return false;
  take_over();
  const bool moved = step();
  if (!moved) check_peers(clock::now());
  let_go();
  return moved;
}

// --- idling -----------------------------------------------------------------------------------------------------

// Idles after a step without progress. Returns false if the thread should sleep.
bool driver::keep_polling(clock::time_point now) {
  if (!is_idle_) {
    is_idle_ = true;
    idle_since_ = now;
    yields_ = 0;
    last_look_ = {};  // the thread was busy after its last poll, so the time since then is not idle time
  }
  note_look(now);
  check_peers(now);
  const std::uint32_t yields = yields_;
  const bool keeps_on = !is_core_shared_ && idle_once(policy_, now - idle_since_, yields_);
  if (policy_.gives_way && yields_ != yields) note_look(clock::now());
  return keeps_on;
}

// Records a poll, and updates `is_core_shared_`. If the transport cannot ring, the core does not count as shared, and
// the thread continues to poll.
void driver::note_look(clock::time_point now) {
  if (policy_.gives_way && last_look_ != clock::time_point()) sharing_.note_look(now, now - last_look_);
  last_look_ = now;
  is_core_shared_ = sharing_.is_shared(now) && !engine_.net().is_time_driven();
}

void driver::check_peers(clock::time_point now) {
  if (now - last_check_ < k_liveness_period) return;
  last_check_ = now;
  const no_cancellation while_it_reads_files;
  if (const status health = engine_.net().liveness().health(); health != status::ok)
    engine_.fail_all(health, engine_.net().liveness().culprit());
  if (const rank dead = engine_.net().liveness().find_dead_peer(); dead != k_no_rank) engine_.lose(dead);
  if (engine_.take_published() && bell_.sleepers.load() != 0) ring(bell_, doorbell::waiter, INT_MAX);
}

// With a device, no thread sleeps for long, because a ring of the device can be lost.
driver::nanoseconds driver::longest_nap() const {
  return is_beside_device_.load() ? nanoseconds(k_liveness_period) : nanoseconds(1h);
}

driver::nanoseconds driver::nap_before(clock::time_point deadline, bool is_waiting) {
  nanoseconds nap = is_waiting || engine_.is_busy() ? nanoseconds(k_liveness_period) : longest_nap();
  if (!is_waiting && leaves_rounds_) nap = k_look_period;
  if (engine_.has_device_work()) nap = std::min<nanoseconds>(nap, k_longest_poll_nap);  // a ring may be lost
  const bool is_left = !is_waiting && is_left_to_callers();
  if (engine_.is_time_driven() && engine_.is_listening() && !is_left) {
    // While a round is outstanding, a message is expected soon, so the sleep is short.
    const nanoseconds longest = engine_.is_busy() ? nanoseconds(k_first_poll_nap) : nanoseconds(k_longest_poll_nap);
    poll_nap_ = std::clamp<nanoseconds>(poll_nap_ * 2, k_first_poll_nap, longest);
    nap = poll_nap_;
  }
  if (const std::uint64_t due_ns = engine_.due_ns(); due_ns != k_never)
    deadline = std::min(deadline, clock::time_point(nanoseconds(due_ns)));
  if (deadline == clock::time_point::max()) return nap;
  return std::clamp<nanoseconds>(deadline - clock::now(), 0ns, nap);
}

// --- application threads ----------------------------------------------------------------------------------------

status driver::start(instance& inst, round_no* round) {
  round_no next = 0;
  if (const status answer = call_for_next(inst, next); answer != status::ok) return answer;
  if (round != nullptr) *round = next;
  run_posted();
  return status::ok;
}

status driver::start(instance& inst, const binding& memory, round_no* round) {
  status answer = status::internal;
  const auto job = [&] {
    answer = inst.verdict.load();
    if (answer == status::ok) answer = engine_.bind(inst, memory);
    if (answer == status::ok) answer = call_for_next(inst, *round);
  };
  with_engine(std::cref(job));  // by reference, so that std::function does not allocate
  return answer;
}

status driver::start_behind(instance& inst, void* stream, round_no* round) {
  if (const status verdict = inst.verdict.load(); verdict != status::ok) return verdict;
  round_no last = inst.called.load();
  if (last - inst.finished.load() >= round_gate::k_most_ahead) return status::busy;
  if (const status answer = inst.device->gate->ask(stream, last + 1); answer != status::ok) return answer;
  if (!inst.called.compare_exchange_strong(last, last + 1)) return status::state;
  *round = last + 1;
  engine_.post(inst);
  run_posted();
  return status::ok;
}

void driver::look_and_let_go() {
  take_over();
  step();
  let_go();
}

status driver::run(instance& inst, round_no* round, clock::time_point deadline) {
  if (const status answer = call_for_next(inst, *round); answer != status::ok) return answer;
  return wait(inst, *round, deadline);
}

status driver::call_for_next(instance& inst, round_no& next) {
  if (inst.verdict.load() != status::ok) return inst.verdict.load();
  round_no last = inst.finished.load();
  if (!inst.called.compare_exchange_strong(last, last + 1)) return status::state;
  next = last + 1;
  if (policy_.are_cores_taken && caller_.load() != this_thread_number()) caller_.store(this_thread_number());
  engine_.post(inst);
  return status::ok;
}

// After a sleep, the thread tries to acquire the engine before it sleeps again or returns. doorbell.h and
// direct_sleep.h (A7) rely on this attempt.
status driver::wait(const goal& what, clock::time_point deadline) {
  for (bool first = true;; first = false) {
    if (what.is_over()) return first ? what.answer() : leave(what, what.answer());
    if (!first && clock::now() >= deadline) return leave(what, status::timeout);
    if (try_acquire()) {
      take_over();
      if (first) is_idle_ = false;
      if (const status answer = drive(what, deadline); answer != status::pending) return answer;
    } else {
      stand_aside();
      if (owner_.load() != 0) wait_for_owner(what, deadline);
    }
  }
}

// Runs the engine until the round is over, the deadline has passed, another thread requests the engine, or the thread
// should sleep. Then releases the engine. Returns PENDING if another thread requests the engine, or after a sleep.
status driver::drive(const goal& what, clock::time_point deadline) {
  for (;;) {
    const bool moved = step();
    if (what.is_over()) break;
    if (moved) {
      is_idle_ = false;
      poll_nap_ = 0ns;
    }
    // Reading the clock takes as long as a poll, so the clock is usually read only after every 16th poll. On a shared
    // core, the clock is read after every poll without progress, so that other threads get the core at once.
    if (++polls_ % 16 != 0 && (moved || !looks_at_clock())) continue;
    const clock::time_point now = clock::now();
    if (moved) check_peers(now);  // otherwise a rank whose messages never pause would not notice a lost rank
    if (now >= deadline) {
      take_back_note(what);
      let_go();
      return what.is_over() ? what.answer() : status::timeout;
    }
    const bool is_due = !moved && !keep_polling(now);
    if (what.is_over()) break;
    if (!moved) note_long_wait(what, now);
    if (is_due) {
      park(what, deadline);
      return status::pending;
    }
    if (contenders_.load() != 0) {
      let_go();
      sched_yield();
      return status::pending;
    }
  }
  take_back_note(what);
  let_go();
  return what.answer();
}

// Publishes the wait once for each idle period. After progress, the round waits for another event, so the wait is
// published again.
void driver::note_long_wait(const goal& what, clock::time_point now) {
  if (what.subject() == nullptr || now - idle_since_ < k_long_wait) return;
  if (noted_.load() == what.subject() && noted_since_ == idle_since_) return;
  noted_.store(what.subject());
  noted_since_ = idle_since_;
  const auto since_ns = static_cast<std::uint64_t>(nanoseconds(idle_since_.time_since_epoch()).count());
  if (what.whose != nullptr) return engine_.note_wait(*what.whose, since_ns);
  wait_note note = *what.note;
  note.since_ns = since_ns;
  engine_.note_wait(note);
}

// Withdraws the published wait. Any thread may call this function, whether or not it owns the engine.
void driver::take_back_note(const goal& what) {
  const void* noted = what.subject();
  if (noted != nullptr && noted_.load() == noted && noted_.compare_exchange_strong(noted, nullptr))
    engine_.note_end_of_wait();
}

// Puts the engine's owner to sleep: announces the sleep in `sleepers`, polls once more, releases the engine and sleeps.
// If the thread can claim the sockets, it sleeps directly (A1 to A6 of direct_sleep.h). The claim precedes the poll, so
// that the poll does not arm the watcher. If another thread has the claim, this thread relies on that claim, and sleeps
// on the doorbell only if the claim has not ended before the release. If the transport has no direct sleep, all threads
// sleep on the doorbell.
void driver::park(const goal& what, clock::time_point deadline) {
  const std::uint32_t epoch = bell_.word[doorbell::waiter].load();
  bell_.sleepers.fetch_add(1);
  const bool is_direct = direct_ != nullptr && direct_->claim();
  const bool moved = announce_and_look();
  const nanoseconds nap = nap_before(deadline, true);
  owner_.store(0);
  if (!moved && !what.is_over() && !engine_.has_posts()) {
    if (is_direct)
      direct_->sleep(epoch, nap);
    else if (direct_ == nullptr || bell_.direct.load() != 0)
      sleep_on(bell_, doorbell::waiter, epoch, nap);
  }
  bell_.sleepers.fetch_sub(1);
  if (is_direct) direct_->end();
}

// Sleeps while another thread owns the engine. The owner reads `sleepers` after it has published a result or released
// the engine, and then rings. If the owner read `sleepers` before this thread incremented it, this thread finds the end
// of the round or the release before it sleeps.
void driver::wait_for_owner(const goal& what, clock::time_point deadline) {
  const std::uint32_t epoch = bell_.word[doorbell::waiter].load();
  bell_.sleepers.fetch_add(1);
  if (!what.is_over() && owner_.load() != 0) {
    const nanoseconds left =
        deadline == clock::time_point::max() ? nanoseconds(k_liveness_period) : deadline - clock::now();
    sleep_on(bell_, doorbell::waiter, epoch, std::clamp<nanoseconds>(left, 0ns, k_liveness_period));
  }
  bell_.sleepers.fetch_sub(1);
}

// Polls once more, because peers may have rung only this thread, which now leaves. If another thread owns the engine,
// that thread polls once more, or sleeps as direct_sleep.h permits.
status driver::leave(const goal& what, status answer) {
  take_back_note(what);
  if (acquire_or_be_replaced()) {
    take_over();
    let_go();
  }
  return what.is_over() ? what.answer() : answer;
}

// --- the progress thread ----------------------------------------------------------------------------------------

// Tries to acquire the engine after a ring. Returns false if another thread owns the engine and will poll again, even
// if that thread was about to release the engine.
bool driver::acquire_or_be_replaced() {
  if (try_acquire()) return true;
  shut_out_.store(true);
  return try_acquire();
}

// Decides whether the progress thread leaves rounds to their callers. If no core is free, the progress thread would
// take a core from a thread that computes. So callers advance their rounds in wait(), and peers do not ring the
// progress thread. The progress thread polls only every millisecond, in case a caller computes for long. Peers must
// ring the progress thread again if the caller sleeps, or if no round has run since the last poll.
void driver::look_at_caller() {
  if (!policy_.are_cores_taken || engine_.net().is_time_driven()) return;
  const bool goes_on = engine_.is_busy() || engine_.counters().rounds != last_rounds_;
  const bool is_called = goes_on && engine_.has_only_called_rounds() && bell_.sleepers.load() == 0;
  leaves_rounds_ = is_called && !is_asleep(caller_.load());
}

// Idles after a step of the progress thread without progress. Returns false if the thread should sleep.
bool driver::lingers(clock::time_point now) {
  if (!leaves_rounds_) return keep_polling(now) && engine_.is_busy();
  check_peers(now);
  return false;
}

void driver::serve(const std::atomic<bool>& stop) {
  has_auxiliary_.store(true);
  while (!stop.load()) {
    std::uint32_t epoch = bell_.word[doorbell::auxiliary].load();
    nanoseconds nap = leaves_rounds_ ? k_look_period : longest_nap();
    set_alarm(k_never);
    if (acquire_or_be_replaced()) {
      take_over();
      look_at_caller();
      is_idle_ = false;
      while (!stop.load() && contenders_.load() == 0) {
        if (step()) {
          is_idle_ = false;
          poll_nap_ = 0ns;
          if (++polls_ % 16 == 0) check_peers(clock::now());
        } else if (!lingers(clock::now())) {
          break;
        }
      }
      last_rounds_ = engine_.counters().rounds;
      epoch = bell_.word[doorbell::auxiliary].load();
      let_go(&nap);
    }
    if (!stop.load()) sleep_on(bell_, doorbell::auxiliary, epoch, nap);
  }
  has_auxiliary_.store(false);
}

}  // namespace lsched
