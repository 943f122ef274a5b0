// Worlds in which threads wait for the sockets themselves (libsched/transport/direct_sleep.h). Each world has one rank.
// The network is also the thread of the watcher: it first delivers a message. Before the message, the watcher could
// only wait.
#include "tests/models/one_rank.h"

namespace lsched {
namespace {

/// A message arrives for a thread that waits for the sockets.
models::report bytes_for_direct_sleeper(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing, medium::sockets);
  all.forbid_naps();
  all.add("waiter", [](one_rank& it) { it.run(0); });
  all.add_network(0);
  return all.explore();
}

/// A message arrives for the progress thread, while another thread waits for the sockets and then gives up.
models::report claimant_gives_up(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing, medium::sockets);
  all.pretend_auxiliary();
  all.add(
      "impatient", [](one_rank& it) { it.wait_in_vain(1); }, patience::impatient);
  all.add("starter", [](one_rank& it) { it.start(0); });
  all.add_network(0);
  return all.explore();
}

/// A thread waits for the sockets, but another thread starts and finishes its round.
models::report post_for_direct_sleeper(const circumstances& around) {
  rank_model all(around, act::nothing, act::nothing, medium::sockets);
  all.forbid_naps();
  all.add("waiter", [](one_rank& it) { it.wait(0); });
  all.add("starter", [](one_rank& it) {
    it.start(1);
    it.start(0);
  });
  return all.explore();
}

/// A thread waits for the sockets, but a worker of the lane ends the arithmetic of the round. The worker rings once.
models::report job_for_direct_sleeper(const circumstances& around) {
  rank_model all(around, act::computes, act::nothing, medium::sockets);
  all.forbid_naps();
  all.add_worker("worker");
  all.add("waiter", [](one_rank& it) { it.run(0); });
  return all.explore();
}

/// A message arrives for two threads that sleep, one of which waits for the sockets. One thread gives up.
models::report direct_and_futex_sleeper(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing, medium::sockets);
  all.add("waiter", [](one_rank& it) { it.run(0); });
  all.add(
      "impatient", [](one_rank& it) { it.wait_in_vain(1); }, patience::impatient);
  all.add_network(0);
  return all.explore();
}

/// Two threads sleep, one of which waits for the sockets. One thread gives up. A third thread starts and finishes the
/// round of the other thread.
models::report post_for_both_sleepers(const circumstances& around) {
  rank_model all(around, act::nothing, act::nothing, medium::sockets);
  all.add("waiter", [](one_rank& it) { it.wait(0); });
  all.add(
      "impatient", [](one_rank& it) { it.wait_in_vain(1); }, patience::impatient);
  all.add("starter", [](one_rank& it) { it.start(0); });
  return all.explore();
}

/// A message arrives for a thread that waits for the sockets, while another thread polls once.
models::report stepper_beside_direct_sleeper(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing, medium::sockets);
  all.forbid_naps();
  all.add("waiter", [](one_rank& it) { it.run(0); });
  all.add("stepper", [](one_rank& it) { it.drives.progress(); });
  all.add_network(0);
  return all.explore();
}

const models::known_world k_worlds[] = {
    models::known_world({"bytes for direct sleeper", bytes_for_direct_sleeper}),
    models::known_world({"claimant gives up", claimant_gives_up}),
    models::known_world({"post for direct sleeper", post_for_direct_sleeper}),
    models::known_world({"direct and futex sleeper", direct_and_futex_sleeper}),
    models::known_world({"job for direct sleeper", job_for_direct_sleeper}),
    models::known_world({"post for both sleepers", post_for_both_sleepers}),
    models::known_world({"stepper beside direct sleeper", stepper_beside_direct_sleeper}),
};

}  // namespace
}  // namespace lsched
