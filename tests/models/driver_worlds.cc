// Worlds that test ownership of the engine, posts (requests to the engine), and the doorbell with its sleeping threads.
// Each world has one rank with the threads that docs/inside/threading.md describes.
#include "tests/models/one_rank.h"

namespace lsched {
namespace {

// --- scenarios -------------------------------------------------------------------------------------------------------

/// A message arrives for a waiting thread.
models::report message_for_waiter(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add_sender(0);
  all.add("waiter", [](one_rank& it) { it.run(0); });
  return all.explore();
}

/// Two messages of one sender arrive. A thread waits for one message after the other.
models::report messages_for_waiter(const circumstances& around) {
  rank_model all(around, act::receives, act::receives);
  all.add_sender_of_two();
  all.add("waiter", [](one_rank& it) {
    it.run(0);
    it.run(1);
  });
  return all.explore();
}

/// Another rank cancels the instance for which a thread waits.
models::report cancellation_for_waiter(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add_canceller();
  all.add("waiter", [](one_rank& it) { it.run_until_given_up(0); });
  return all.explore();
}

/// Another rank cancels the instance for which a thread waits. The message for which the thread waits may arrive before
/// the cancellation.
models::report cancellation_or_message(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add_sender(0);
  all.add_canceller();
  all.add("waiter", [](one_rank& it) { it.run_until_given_up(0); });
  return all.explore();
}

/// Another rank cancels an instance while the application computes.
models::report cancellation_for_auxiliary(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add_canceller();
  all.add("application", [](one_rank& it) { static_cast<void>(it.drives.start(*it.it[0], nullptr)); });
  all.add_auxiliary();
  return all.explore("auxiliary");
}

/// A thread cancels the instance for which another thread waits.
models::report cancellation_by_a_thread(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add("waiter", [](one_rank& it) { it.run_until_given_up(0); });
  all.add("canceller", [](one_rank& it) { it.cancel(0); });
  return all.explore();
}

/// Another rank cancels the instance for which a thread waits. A third rank reads a payload in this rank's memory.
models::report reader_and_waiter(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.limit_early_naps();
  all.add_canceller();
  all.add("reader", [](one_rank& it) { it.be_read(); });
  all.add("waiter", [](one_rank& it) {
    it.run_until_given_up(0);
    it.reuse_payload();
  });
  return all.explore();
}

/// The engine of another rank sends a message to a waiting thread.
models::report engine_for_waiter(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add_sending_rank();
  all.add("waiter", [](one_rank& it) { it.run(0); });
  return all.explore();
}

/// A message arrives while the application computes. The auxiliary thread must receive the message.
models::report message_for_auxiliary(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add_sender(0);
  all.add("application", [](one_rank& it) { it.start(0); });
  all.add_auxiliary();
  return all.explore("auxiliary");
}

/// A message arrives for the auxiliary thread. Meanwhile the application owns the engine, because it prepares a call.
models::report message_for_call(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add_sender(0);
  all.add("application", [](one_rank& it) { it.call(0); });
  all.add_auxiliary();
  return all.explore("auxiliary");
}

/// Two threads make calls. When one thread calls, the other thread may own the engine.
models::report two_calls(const circumstances& around) {
  rank_model all(around, act::nothing, act::nothing);
  all.add("application 0", [](one_rank& it) { it.call(0); });
  all.add("application 1", [](one_rank& it) { it.call(1); });
  return all.explore();
}

/// Each of two application threads waits for one message.
models::report two_waiters(const circumstances& around) {
  rank_model all(around, act::receives, act::receives);
  all.add_sender(0);
  all.add_sender(1);
  all.add("waiter 0", [](one_rank& it) { it.run(0); });
  all.add("waiter 1", [](one_rank& it) { it.run(1); });
  return all.explore();
}

/// Two threads wait, and only one of them polls. The thread whose timeout expires stops waiting, even if it is the
/// polling thread.
models::report one_gives_up(const circumstances& around) {
  rank_model all(around, act::receives, act::receives);
  all.add_sender(0);
  all.add("waiter", [](one_rank& it) { it.run(0); });
  all.add(
      "impatient", [](one_rank& it) { it.wait_in_vain(1); }, patience::impatient);
  return all.explore();
}

/// A message arrives for the progress thread, while another thread stops waiting.
models::report one_gives_up_beside_auxiliary(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.pretend_auxiliary();
  all.add_sender(0);
  all.add("starter", [](one_rank& it) { it.start(0); });
  all.add(
      "impatient", [](one_rank& it) { it.wait_in_vain(1); }, patience::impatient);
  return all.explore();
}

/// Two threads start rounds without messages, and then compute. The rounds must end although no thread waits.
models::report two_posts(const circumstances& around) {
  rank_model all(around, act::nothing, act::nothing);
  all.add("application 0", [](one_rank& it) { it.start(0); });
  all.add("application 1", [](one_rank& it) { it.start(1); });
  return all.explore();
}

/// Two threads run rounds without messages. One thread may finish the other thread's round.
models::report two_runs(const circumstances& around) {
  rank_model all(around, act::nothing, act::nothing);
  all.add("runner 0", [](one_rank& it) { it.run(0); });
  all.add("runner 1", [](one_rank& it) { it.run(1); });
  return all.explore();
}

/// An instance is posted several times, while another instance is posted.
models::report posts_and_steps(const circumstances& around) {
  rank_model all(around, act::nothing, act::nothing);
  all.add("application 0", [](one_rank& it) {
    it.start(0);
    it.runs.post(*it.it[0]);
    it.drives.run_posted();
  });
  all.add("application 1", [](one_rank& it) { it.start(1); });
  all.add("stepper", [](one_rank& it) { it.drives.progress(); });
  return all.explore();
}

/// The application calls for the next round as soon as a round has ended. At that time, another thread may still be
/// checking the instance.
models::report round_after_round(const circumstances& around) {
  rank_model all(around, act::nothing, act::nothing);
  all.add("application", [](one_rank& it) {
    it.run(0);
    it.start(0);
  });
  all.add("stepper", [](one_rank& it) { it.drives.progress(); });
  return all.explore();
}

/// One thread waits for a message. Another thread starts a round, and then computes.
models::report waiter_and_starter(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add_sender(0);
  all.add("waiter", [](one_rank& it) { it.run(0); });
  all.add("starter", [](one_rank& it) { it.start(1); });
  return all.explore();
}

/// A message arrives while both a waiter and the auxiliary thread are active.
models::report waiter_and_auxiliary(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add_sender(0);
  all.add("waiter", [](one_rank& it) { it.run(0); });
  all.add_auxiliary();
  return all.explore("auxiliary");
}

/// The application stops the auxiliary thread.
models::report stop_of_auxiliary(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add("application", [](one_rank& it) {
    it.start(0);
    it.wait(0);
    it.stop.store(true);
    it.drives.wake_auxiliary();
  });
  all.add_sender(0);
  all.add_auxiliary();
  return all.explore();
}

/// A thread waits for a job on the lane.
models::report job_for_waiter(const circumstances& around) {
  rank_model all(around, act::computes, act::nothing);
  all.add_worker("worker");
  all.add("waiter", [](one_rank& it) {
    it.run(0);
    models::require(it.landing == std::byte{1}, "a round is over before its arithmetic");
  });
  return all.explore();
}

/// A job on the lane ends while the application computes. The auxiliary thread must notice the end.
models::report job_for_auxiliary(const circumstances& around) {
  rank_model all(around, act::computes, act::nothing);
  all.add_worker("worker");
  all.add("application", [](one_rank& it) { it.start(0); });
  all.add_auxiliary();
  return all.explore("auxiliary");
}

/// Two workers serve two jobs. One worker may still be in the first job when the second job is submitted.
models::report job_after_job(const circumstances& around) {
  rank_model all(around, act::computes, act::computes);
  all.add_worker("worker 0");
  all.add_worker("worker 1");
  all.add("waiter", [](one_rank& it) {
    it.run(0);
    it.landing = std::byte{0};
    it.run(1);
    models::require(it.landing == std::byte{1}, "a round is over before its arithmetic");
  });
  return all.explore();
}

/// The lane (executor of compute jobs) is destroyed. Afterwards a late worker must not access the doorbell.
models::report end_of_lane(const circumstances& around) {
  rank_model all(around, act::computes, act::nothing);
  all.add_worker("worker");
  all.add("application", [](one_rank& it) {
    it.run(0);
    it.beside.board.close();
    it.give_bell_away();
  });
  return all.explore();
}

// A time-driven transport never rings. The thread that must poll for messages naps (sleeps with a short timeout).

/// A message arrives for a waiting thread, which is the only thread of the rank.
models::report nap_of_waiter(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing, medium::time_driven);
  all.add_sender(0);
  all.add("waiter", [](one_rank& it) { it.run(0); });
  return all.explore();
}

/// A message arrives while the application computes. When the round starts, the auxiliary thread is about to sleep,
/// sleeps, or does not run yet.
models::report nap_of_auxiliary(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing, medium::time_driven);
  all.add_sender(0);
  all.add("application", [](one_rank& it) { it.start(0); });
  all.add_auxiliary();
  return all.explore("auxiliary");
}

/// A message arrives for the auxiliary thread. Meanwhile the application owns the engine, because it prepares a call.
models::report nap_and_call(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing, medium::time_driven);
  all.add_sender(0);
  all.add("application", [](one_rank& it) { it.call(0); });
  all.add_auxiliary();
  return all.explore("auxiliary");
}

/// A thread that waits for a message and the auxiliary thread both nap.
models::report nap_of_both(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing, medium::time_driven);
  all.limit_early_naps();
  all.add_sender(0);
  all.add("waiter", [](one_rank& it) { it.run(0); });
  all.add_auxiliary();
  return all.explore("auxiliary");
}

/// A waiting thread that naps leaves while a round is still in flight. From then on, the auxiliary thread naps.
models::report nap_handed_over(const circumstances& around) {
  rank_model all(around, act::receives, act::receives, medium::time_driven);
  all.limit_early_naps();
  all.add_sender_of_two();
  all.add("application", [](one_rank& it) {
    it.start(0);
    it.run(1);
  });
  all.add_auxiliary();
  return all.explore("auxiliary");
}

/// One of two waiting threads naps. The other sleeps until the first thread leaves.
models::report nap_of_two_waiters(const circumstances& around) {
  rank_model all(around, act::receives, act::receives, medium::time_driven);
  all.limit_early_naps();
  all.add_sender_of_two();
  all.add("waiter 0", [](one_rank& it) { it.run(0); });
  all.add("waiter 1", [](one_rank& it) { it.run(1); });
  return all.explore();
}

// A grace passes, and nothing rings at that time. A thread must be in a nap that ends by itself.

models::report grace_for_waiter(const circumstances& around) {
  rank_model all(around, act::awaits_grace, act::nothing);
  all.add("waiter", [](one_rank& it) {
    it.call(0);
    it.wait(0);
  });
  all.add_time();  // last, so that the search first lets the other threads work
  return all.explore();
}

/// The auxiliary thread may sleep for long when the application begins the grace.
models::report grace_for_auxiliary(const circumstances& around) {
  rank_model all(around, act::awaits_grace, act::nothing);
  all.add("application", [](one_rank& it) { it.call(0); });
  all.add_auxiliary();
  all.add_time();  // last, so that the search first lets the other threads work
  return all.explore("auxiliary");
}

/// The nap of the auxiliary thread may end while the application owns the engine.
models::report grace_and_stepper(const circumstances& around) {
  rank_model all(around, act::awaits_grace, act::nothing);
  all.limit_early_naps(1);
  all.add("application", [](one_rank& it) {
    it.call(0);
    it.drives.progress();
  });
  all.add_auxiliary();
  all.add_time();  // last, so that the search first lets the other threads work
  return all.explore("auxiliary");
}

/// A waiting thread may give up before the grace has passed.
models::report grace_after_wait(const circumstances& around) {
  rank_model all(around, act::awaits_grace, act::nothing);
  all.limit_early_naps(1);
  all.add(
      "impatient",
      [](one_rank& it) {
        it.call(0);
        it.wait_a_while(0);
      },
      patience::impatient);
  all.add_auxiliary();
  all.add_time();  // last, so that the search first lets the other threads work
  return all.explore("auxiliary");
}

// No core is free for the auxiliary thread. Therefore the auxiliary thread leaves rounds to the threads that have
// started them, and polls only from time to time.

/// A message arrives while the application computes and makes no further call.
models::report look_at_round(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing, medium::rings, cores::taken);
  all.add_sender(0);
  all.add("application", [](one_rank& it) { it.start(0); });
  all.add_auxiliary();
  return all.explore("auxiliary");
}

/// The application starts a round. Later it waits for the end of the round.
models::report left_to_caller(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing, medium::rings, cores::taken);
  all.limit_early_naps();
  all.add_sender(0);
  all.add("application", [](one_rank& it) {
    it.start(0);
    it.wait(0);
  });
  all.add_auxiliary();
  return all.explore("auxiliary");
}

const models::known_world k_worlds[] = {
    models::known_world({"grace for waiter", grace_for_waiter}),
    models::known_world({"grace for auxiliary", grace_for_auxiliary}),
    models::known_world({"grace and stepper", grace_and_stepper}),
    models::known_world({"grace after wait", grace_after_wait}),
    models::known_world({"look at round", look_at_round}),
    models::known_world({"left to caller", left_to_caller}),
    models::known_world({"job for waiter", job_for_waiter}),
    models::known_world({"job for auxiliary", job_for_auxiliary}),
    models::known_world({"job after job", job_after_job}),
    models::known_world({"end of lane", end_of_lane}),
    models::known_world({"message for waiter", message_for_waiter}),
    models::known_world({"messages for waiter", messages_for_waiter}),
    models::known_world({"engine for waiter", engine_for_waiter}),
    models::known_world({"cancellation for waiter", cancellation_for_waiter}),
    models::known_world({"cancellation or message", cancellation_or_message}),
    models::known_world({"cancellation for auxiliary", cancellation_for_auxiliary}),
    models::known_world({"cancellation by a thread", cancellation_by_a_thread}),
    models::known_world({"reader and waiter", reader_and_waiter}),
    models::known_world({"message for auxiliary", message_for_auxiliary}),
    models::known_world({"message for call", message_for_call}),
    models::known_world({"two calls", two_calls}),
    models::known_world({"two waiters", two_waiters}),
    models::known_world({"one gives up", one_gives_up}),
    models::known_world({"one gives up beside auxiliary", one_gives_up_beside_auxiliary}),
    models::known_world({"two posts", two_posts}),
    models::known_world({"two runs", two_runs}),
    models::known_world({"posts and steps", posts_and_steps}),
    models::known_world({"round after round", round_after_round}),
    models::known_world({"waiter and starter", waiter_and_starter}),
    models::known_world({"waiter and auxiliary", waiter_and_auxiliary}),
    models::known_world({"stop of auxiliary", stop_of_auxiliary}),
    models::known_world({"nap of waiter", nap_of_waiter}),
    models::known_world({"nap of auxiliary", nap_of_auxiliary}),
    models::known_world({"nap and call", nap_and_call}),
    models::known_world({"nap of both", nap_of_both}),
    models::known_world({"nap handed over", nap_handed_over}),
    models::known_world({"nap of two waiters", nap_of_two_waiters}),
};

}  // namespace
}  // namespace lsched
