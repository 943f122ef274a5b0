#include "offload/joined_world.h"

#include <algorithm>
#include <string>
#include <thread>

#include "libsched/transport/shm/shm_segment.h"

namespace lsched {

result<instance*> joined_world::commit(const commit_request& request) {
  const std::lock_guard lock(commit_guard_);
  for (std::size_t tried = 0; tried < shm_page::k_ids; ++tried) {
    auto answer = commit_once(request);
    if (answer || answer.error().code != status::busy) return answer;
  }
  return failure{status::no_memory, "too many schedules exist at once"};
}

/// Under the next number. BUSY: an older schedule has its place.
result<instance*> joined_world::commit_once(const commit_request& request) {
  if (is_out_of_step_)
    return failure{status::state, "an earlier commit timed out; this world cannot commit any more, only close"};
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
    is_out_of_step_ = true;
    process_.driver().with_engine([&] {
      step->abandon();
      if (dead != k_no_rank) process_.engine().fail_all(status::peer, dead);
    });
    if (dead == k_no_rank) return step->why();
    return failure{status::peer, "rank " + std::to_string(dead) + " died or closed its world before it committed",
                   dead};
  }
}

status joined_world::remove(std::span<instance** const> gone) {
  status answer = status::ok;
  process_.driver().with_engine([&] {
    (void)process_.engine().step();  // the mailbox may still hold one of them
    for (instance** one : gone) {
      if (*one == nullptr) continue;
      if (answer = process_.engine().remove(**one); answer != status::ok) return;
      *one = nullptr;
      --instances_;
    }
  });
  return answer;
}

}  // namespace lsched
