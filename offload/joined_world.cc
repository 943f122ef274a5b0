#include "offload/joined_world.h"

#include <algorithm>
#include <string>
#include <thread>

namespace lsched {
namespace {

constexpr std::chrono::milliseconds k_longest_read{100};

}  // namespace

result<instance*> joined_world::commit(const commit_request& request) {
  const std::lock_guard lock(commit_guard_);
  if (out_of_step_) return *out_of_step_;
  const auto deadline = driver::clock::now() + commit_timeout_;
  std::optional<commitment> step;
  process_.driver().with_engine([&] { step.emplace(process_.engine(), request); });
  for (auto nap = std::chrono::microseconds(0);;
       nap = std::min(nap + std::chrono::microseconds(10), std::chrono::microseconds(500))) {
    status answer = status::pending;
    rank dead = k_no_rank;
    process_.driver().with_engine([&] {
      answer = step->advance();
      const bool is_late = nap.count() > 0 && nap.count() % 100 == 0;  // to look whether processes live takes a while
      if (answer == status::pending && is_late) dead = process_.net().find_dead_peer();
    });
    if (answer == status::ok) {
      ++instances_;
      return step->committed();
    }
    if (answer != status::pending) return step->why();
    if (dead == k_no_rank && driver::clock::now() < deadline) {
      std::this_thread::sleep_for(nap);
      continue;
    }
    out_of_step_ = failure{status::state, "an earlier commit timed out; this world cannot commit any more, only close"};
    process_.driver().with_engine([&] {
      step->abandon();
      if (dead != k_no_rank) process_.engine().fail_all(status::peer, dead);
    });
    if (dead == k_no_rank) return step->why();
    out_of_step_ =
        failure{status::peer, "rank " + std::to_string(dead) + " died or closed its world before it committed", dead};
    return *out_of_step_;
  }
}

std::optional<failure> joined_world::cancel(std::span<instance** const> gone) {
  process_.driver().with_engine([&] {
    for (instance** one : gone)
      if (*one != nullptr) process_.engine().cancel(**one);
  });
  for (instance** one : gone)
    if (*one != nullptr)
      if (auto why = await_readers(**one)) return why;
  return std::nullopt;
}

/// What a peer reads in one piece takes less than the limit; a longer wait is for one that has been stopped.
/// For this rank's own lane there is no limit: what it has begun it ends.
std::optional<failure> joined_world::await_readers(instance& given_up) {
  const auto deadline = driver::clock::now() + k_longest_read;
  for (auto nap = std::chrono::microseconds(0);;
       nap = std::min(nap + std::chrono::microseconds(10), std::chrono::microseconds(500))) {
    rank reader = k_no_rank;
    status answer = status::internal;
    process_.driver().with_engine([&] { answer = process_.engine().check_readers(given_up, &reader); });
    if (answer == status::ok) return std::nullopt;
    const bool is_own_lane = answer == status::pending && reader == k_no_rank;
    if (is_own_lane || driver::clock::now() < deadline) {
      std::this_thread::sleep_for(nap);
      continue;
    }
    if (answer == status::unsupported)
      return failure{answer, given_up.label + ": MPI still moves a long message from or into this rank's memory"};
    return failure{status::busy, given_up.label + ": rank " + std::to_string(reader) + " reads this rank's memory",
                   reader};
  }
}

std::optional<failure> joined_world::remove(std::span<instance** const> gone) {
  std::optional<failure> why;
  for (instance** one : gone) {
    if (*one == nullptr || (*one)->verdict.load() == status::ok) continue;
    auto held = await_readers(**one);
    if (held && held->code == status::busy) return held;
    if (held) why = std::move(held);
  }
  process_.driver().with_engine([&] {
    (void)process_.engine().step();  // the mailbox may still hold one of them
    for (instance** one : gone) {
      if (*one == nullptr) continue;
      const std::string label = (*one)->label;
      if (const status answer = process_.engine().remove(**one); answer != status::ok) {
        why = failure{answer, label + ": a round is outstanding"};
        return;
      }
      *one = nullptr;
      --instances_;
    }
  });
  return why;
}

}  // namespace lsched
