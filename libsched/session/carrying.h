// This class moves a session from a world with lost ranks to the world of the survivors (docs/reference/shrink.md), or
// to a world of another engine of this process.
//
//     begin()  ──►  no rank reads this rank's memory  ──►  hand_over()  ──►  request()  ──►  end()
//     the instances fail                                    commit            commit         successors take over
//
// No function here waits. Both commits are made in the world of the survivors. The caller waits for each commit, and
// removes the old instances after end().
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "libsched/commit/handover.h"
#include "libsched/session/session.h"

namespace lsched {

class carrying {
 public:
  /// `runs` is the engine of the session's instances.
  carrying(engine& runs, session& moved) : engine_(runs), session_(moved), before_(moved.all().in_order()) {}

  /// Returns the instances that the session had before the move.
  const std::vector<instance*>& before() const { return before_; }

  /// Returns ARGUMENT if `to` has a rank that is not in the session's world.
  std::optional<failure> validate(const membership& to) const;

  /// Makes the instances fail with PEER, unless they have failed before. The failure names the first member of the
  /// session's world that is not in `to`. Returns STATE if the session cannot move, because its schedule has ended or
  /// has not failed. Only the engine's owner may call this function.
  std::optional<failure> begin(const membership& to);
  /// Does the same for a world of another engine. The caller must then cancel instances that have not failed.
  std::optional<failure> begin() const;

  /// Makes the first commit in the world `to` of the engine `where`. In this commit, the survivors copy the last
  /// result. If `unable` is set, it is the reason why this rank cannot move the session, and the commit fails on all
  /// ranks. Only the owner of `where` may call this function.
  std::shared_ptr<handover> hand_over(engine& where, membership_ptr to, std::uint64_t number,
                                      const std::optional<failure>& unable) const;

  /// Completes the request for the second commit, so that the new instances continue the session's instances.
  void request(commit_request& wanted) const;

  /// Makes the session use the new instances, which the second commit has made in the engine `where`.
  void end(engine& where, std::span<instance* const> made) { session_.go_on_with(where, session_instances::of(made)); }

 private:
  const membership& members() const { return *before_.front()->members; }

  engine& engine_;
  session& session_;
  std::vector<instance*> before_;
};

}  // namespace lsched
