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

// How often a rank that waits looks whether its peers dump core: of other ends it is told.
constexpr auto k_liveness_period = 50ms;
constexpr auto k_long_wait = 50us;        // after which the others are told what a rank waits for
constexpr auto k_first_poll_nap = 50us;   // between polls of a transport that cannot wake us …
constexpr auto k_longest_poll_nap = 1ms;  // … growing to this while nothing comes
constexpr auto k_look_period = 1ms;       // of the auxiliary thread at rounds that it leaves to their callers
constexpr int k_last_looks = 8;           // steps of a leaving owner before it hands over work that keeps coming
constexpr int k_patience = 64;            // attempts to get the engine before sleeping

}  // namespace

// --- ownership --------------------------------------------------------------------------------------------------

// Keeps the record of idling: threads that pass the engine around without moving anything are idle together, and
// must all go to sleep.
void driver::take_over() {
  last_look_ = {};
  if (bell_.polling.load() == 0) bell_.polling.store(1);
}

bool driver::step() {
  const bool moved = engine_.step();
  if (engine_.take_published() && bell_.sleepers.load() != 0) ring(bell_, doorbell::waiter, INT_MAX);
  return moved;
}

// Whether the progress thread should hear of messages once nobody polls.
bool driver::auxiliary_listens() const {
  return engine_.is_listening() && has_auxiliary_.load() && !is_left_to_callers();
}

// Whether the progress thread looks by itself at all that is under way.
bool driver::is_left_to_callers() const { return leaves_rounds_ && engine_.has_only_called_rounds(); }

// Nobody polls from here on. Says who wants to hear of messages, then looks once more for those whose sender
// still saw us polling. True: something moved.
bool driver::announce_and_look() {
  const bool listened = engine_.is_listening();
  bell_.wanted.store(auxiliary_listens() ? 1 : 0);
  bell_.polling.store(0);
  engine_.arm_device();
  const bool moved = step();
  return moved || (engine_.is_listening() && !listened);
}

// Where nobody needs a ring, `polling` stays as it is: peers read it with every message, and a word that changes
// twice a round would be fetched from the other core just as often. A waiter that sleeps is rung here in any case.
// A medium that cannot ring is looked at from time to time: by the auxiliary thread, which is told by `nap` how long it
// may sleep, as the engine was left, or else is woken.
void driver::let_go(nanoseconds* nap) {
  for (int turns = 1;; ++turns) {
    int looks = 0;
    while (auxiliary_listens() && announce_and_look() && ++looks < k_last_looks) {
    }
    const bool listens = engine_.is_listening();
    const bool is_looked_for = engine_.is_time_driven() && listens && !is_left_to_callers();
    const bool has_more = looks == k_last_looks || (is_looked_for && nap == nullptr);
    if (!listens || is_left_to_callers()) expect_nothing();
    if (nap != nullptr) *nap = nap_before(clock::time_point::max(), false);
    owner_.store(0);
    if ((engine_.has_posts() || (turns < k_last_looks && was_one_shut_out())) && try_acquire()) {
      step();
      continue;
    }
    if (bell_.sleepers.load() != 0)
      ring(bell_, doorbell::waiter);
    else if ((has_more && has_auxiliary_.load()) || was_one_shut_out())
      ring(bell_, doorbell::auxiliary);
    return;
  }
}

// No message could make anything happen, or whoever it is for looks by himself: none is to wake anybody, and what has
// woken somebody was for a round that is over, or that he looks at.
void driver::expect_nothing() {
  if (bell_.wanted.load() != 0) bell_.wanted.store(0);
  if (shut_out_.load()) shut_out_.store(false);
}

// Something came after our last look that rang the auxiliary thread, which we shut out. To look again is cheaper than
// to wake it once more, a few times.
bool driver::was_one_shut_out() { return shut_out_.load() && shut_out_.exchange(false); }

void driver::stand_aside() {
  contenders_.fetch_add(1);
  for (int i = 0; i < k_patience && owner_.load() != 0; ++i) sched_yield();
  contenders_.fetch_sub(1);
}

void driver::with_engine(const std::function<void()>& job) {
  while (!try_acquire()) stand_aside();
  take_over();
  struct release {  // also if the job throws
    driver& owned;
    ~release() {
      owned.step();  // a rank that waits in a commit may be alone in serving older schedules
      owned.let_go();
    }
  } const at_end{*this};
  job();
}

void driver::attach(device& gpu) {
  with_engine([&] { engine_.use(gpu); });
  is_beside_device_.store(true);
  wake_auxiliary();  // which sleeps less long from now on
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

// After a step that moved nothing. False: time to sleep.
bool driver::keep_polling(clock::time_point now) {
  if (!is_idle_) {
    is_idle_ = true;
    idle_since_ = now;
    yields_ = 0;
    last_look_ = {};  // the time since then was spent on work
  }
  note_look(now);
  check_peers(now);
  const std::uint32_t yields = yields_;
  const bool keeps_on = !is_core_shared_ && idle_once(policy_, now - idle_since_, yields_);
  if (policy_.gives_way && yields_ != yields) note_look(clock::now());
  return keeps_on;
}

// A medium that cannot ring has to be looked at in any case.
void driver::note_look(clock::time_point now) {
  if (policy_.gives_way && last_look_ != clock::time_point()) sharing_.note_look(now, now - last_look_);
  last_look_ = now;
  is_core_shared_ = sharing_.is_shared(now) && !engine_.net().is_time_driven();
}

void driver::check_peers(clock::time_point now) {
  if (now - last_check_ < k_liveness_period) return;
  last_check_ = now;
  const no_cancellation while_it_reads_files;
  if (const status health = engine_.net().health(); health != status::ok)
    engine_.fail_all(health, engine_.net().culprit());
  if (const rank dead = engine_.net().find_dead_peer(); dead != k_no_rank) engine_.lose(dead);
  if (engine_.take_published() && bell_.sleepers.load() != 0) ring(bell_, doorbell::waiter, INT_MAX);
}

// Beside a device nobody sleeps for good: whoever starts the next job may leave, and its ring may be lost.
driver::nanoseconds driver::longest_nap() const {
  return is_beside_device_.load() ? nanoseconds(k_liveness_period) : nanoseconds(1h);
}

driver::nanoseconds driver::nap_before(clock::time_point deadline, bool is_waiting) {
  nanoseconds nap = is_waiting || engine_.is_busy() ? nanoseconds(k_liveness_period) : longest_nap();
  if (!is_waiting && leaves_rounds_) nap = k_look_period;
  if (engine_.has_device_work()) nap = std::min<nanoseconds>(nap, k_longest_poll_nap);  // a ring may be lost
  const bool is_left = !is_waiting && is_left_to_callers();
  if (engine_.is_time_driven() && engine_.is_listening() && !is_left) {
    // While a round is under way a message is due soon; a partial instance that merely serves can wait longer.
    const nanoseconds longest = engine_.is_busy() ? nanoseconds(k_first_poll_nap) : nanoseconds(k_longest_poll_nap);
    poll_nap_ = std::clamp<nanoseconds>(poll_nap_ * 2, k_first_poll_nap, longest);
    nap = poll_nap_;
  }
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
  with_engine(std::cref(job));  // which a std::function holds without allocating
  return answer;
}

status driver::start_behind(instance& inst, void* stream, round_no* round) {
  if (const status verdict = inst.verdict.load(); verdict != status::ok) return verdict;
  round_no last = inst.called.load();
  if (last - inst.finished.load() >= round_gate::k_most_ahead) return status::busy;
  if (const status answer = inst.gate->ask(stream, last + 1); answer != status::ok) return answer;
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

// Runs the engine until the round is over, the deadline has passed, another thread wants it, or it is time to
// sleep; the last two, after sleeping, answer PENDING. Does not own the engine afterwards.
status driver::drive(const goal& what, clock::time_point deadline) {
  for (std::uint32_t polls = 0;; ++polls) {
    const bool moved = step();
    if (what.is_over()) break;
    if (moved) {
      is_idle_ = false;
      poll_nap_ = 0ns;
    }
    // Reading the clock costs as much as a poll. If others wait for the core, they get it at once.
    if (polls % 16 != 15 && (moved || !looks_at_clock())) continue;
    const clock::time_point now = clock::now();
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

// Once for each time in which nothing moves: after that the round waits for something else.
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

// By any thread: one that has slept need not own the engine when its round is over.
void driver::take_back_note(const goal& what) {
  const void* noted = what.subject();
  if (noted != nullptr && noted_.load() == noted && noted_.compare_exchange_strong(noted, nullptr))
    engine_.note_end_of_wait();
}

// The owner goes to sleep: announce, look once more, let go, sleep. It stays registered while others poll.
void driver::park(const goal& what, clock::time_point deadline) {
  const std::uint32_t epoch = bell_.word[doorbell::waiter].load();
  bell_.sleepers.fetch_add(1);
  const bool moved = announce_and_look();
  const nanoseconds nap = nap_before(deadline, true);
  owner_.store(0);
  if (!moved && !what.is_over() && !engine_.has_posts()) sleep_on(bell_, doorbell::waiter, epoch, nap);
  bell_.sleepers.fetch_sub(1);
}

// Another thread owns the engine. Either it sees us registered when it publishes or lets go, and rings; or we see
// here that it has.
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

// Looks for messages, since the waiter that slept may have been the thread that peers would wake for them. The awaited
// round may end in this look.
status driver::leave(const goal& what, status answer) {
  take_back_note(what);
  if (try_acquire()) {
    take_over();
    let_go();
  }
  return what.is_over() ? what.answer() : answer;
}

// --- the auxiliary thread ---------------------------------------------------------------------------------------

// What rang this thread may have come after the last look of an owner who has not let go yet. False: he, or whoever
// has the engine after him, looks again when he has let go.
bool driver::acquire_or_be_replaced() {
  if (try_acquire()) return true;
  shut_out_.store(true);
  return try_acquire();
}

// Where no core is free, this thread could only take one away from somebody who computes. So it leaves rounds to their
// callers, who go on with them in wait, and nobody rings it. It looks by itself from time to time, so that the round of
// a caller who computes for long gets on. It wants to be rung again as soon as it finds the caller asleep, outside the
// library or in a wait, or that nothing has been going on.
void driver::look_at_caller() {
  if (!policy_.are_cores_taken || engine_.net().is_time_driven()) return;
  const bool goes_on = engine_.is_busy() || engine_.counters().rounds != last_rounds_;
  const bool is_called = goes_on && engine_.has_only_called_rounds() && bell_.sleepers.load() == 0;
  leaves_rounds_ = is_called && !is_asleep(caller_.load());
}

// After a step of this thread that moved nothing. False: time to sleep.
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
    if (acquire_or_be_replaced()) {
      take_over();
      look_at_caller();
      is_idle_ = false;
      while (!stop.load() && contenders_.load() == 0) {
        if (step()) {
          is_idle_ = false;
          poll_nap_ = 0ns;
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
