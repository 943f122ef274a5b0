// Collective commits of schedules in the world of all ranks, for tests that have an engine but no lsched_world.
#pragma once

#include <memory>

#include "libsched/commit/commit_queue.h"
#include "libsched/commit/split.h"

namespace lsched::testing {

/// A queue of commits on one rank. All calls come from the thread that owns the engine. The engine's steps advance the
/// commits.
class home_commits {
 public:
  explicit home_commits(engine& runs)
      : engine_(runs),
        queue_(runs, std::make_shared<const membership>(runs.net().place()), runs.net().open_home_board()) {}

  std::shared_ptr<schedule_commit> add(const commit_request& what) {
    auto made = std::make_shared<schedule_commit>(engine_, queue_.members(), queue_.next_number(), what);
    queue_.add(made);
    return made;
  }

  std::shared_ptr<split_commit> split(const split_choice& choice) {
    auto made = std::make_shared<split_commit>(engine_.net(), queue_.members(), queue_.next_number(),
                                               result<split_choice>(choice));
    queue_.add(made);
    return made;
  }

  rank give_up(const commitment& late) { return queue_.give_up(late); }

 private:
  engine& engine_;
  commit_queue queue_;
};

inline bool has_ended(const commitment& one) { return one.progress().has_ended(); }

}  // namespace lsched::testing
