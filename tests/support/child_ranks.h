// Runs the ranks of a test as forked child processes. Each child has a time limit. A child is killed only by its
// process id.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ops/base.h"
#include "tests/support/wait_until.h"

namespace lsched::testing {

class child_ranks {
 public:
  /// Forks one child per rank. Each child calls `body` with the child's rank and exits with the result of `body`. A
  /// child that runs longer than `limit` is killed. The default limit is long because a message between two ranks may
  /// take milliseconds on busy cores.
  child_ranks(rank ranks, std::function<int(rank)> body, std::chrono::seconds limit = std::chrono::seconds(100))
      : deadline_(std::chrono::steady_clock::now() + limit) {
    std::fflush(nullptr);
    for (rank r = 0; r < ranks; ++r) {
      const pid_t child = fork();
      if (child == 0) {
        alarm(static_cast<unsigned>(limit.count()) + 5);  // ends this child if its parent has died
        const int code = body(r);
        std::fflush(nullptr);
        _exit(code);
      }
      children_.push_back(child);
    }
  }
  child_ranks(const child_ranks&) = delete;
  child_ranks& operator=(const child_ranks&) = delete;
  ~child_ranks() {
    for (rank r = 0; r < static_cast<rank>(children_.size()); ++r) kill(r);
  }

  /// Sends `signal` to one child and waits until the child has ended.
  void kill(rank of, int signal = SIGKILL) {
    pid_t& child = children_[static_cast<std::size_t>(of)];
    if (child <= 0) return;
    ::kill(child, signal);
    waitpid(std::exchange(child, 0), nullptr, 0);
  }

  /// Sends SIGKILL to one child, but does not wait for the end of the child.
  void send_kill(rank of) const {
    if (const pid_t child = children_[static_cast<std::size_t>(of)]; child > 0) ::kill(child, SIGKILL);
  }

  /// Suspends one child, until resume() or kill().
  void stop(rank of) const { ::kill(children_[static_cast<std::size_t>(of)], SIGSTOP); }
  void resume(rank of) const { ::kill(children_[static_cast<std::size_t>(of)], SIGCONT); }

  /// Waits for one child, and kills the child at the time limit. Returns a description of the child's failure, or an
  /// empty string.
  std::string wait(rank of) {
    pid_t& child = children_[static_cast<std::size_t>(of)];
    const std::string who = "rank " + std::to_string(of);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
    if (child <= 0) return who + " was not started";
    if (!wait_for_end(child, std::max(left, std::chrono::milliseconds(0)))) {
      kill(of);
      return who + " took too long";
    }
    int how = 0;
    waitpid(std::exchange(child, 0), &how, 0);
    if (WIFSIGNALED(how)) return who + " was ended by signal " + std::to_string(WTERMSIG(how));
    return WEXITSTATUS(how) == 0 ? std::string() : who + " exited with " + std::to_string(WEXITSTATUS(how));
  }

  /// Waits for each child as wait(rank) does. Returns a description of all failures, or an empty string.
  std::string wait() {
    std::string complaints;
    for (rank r = 0; r < static_cast<rank>(children_.size()); ++r)
      if (children_[static_cast<std::size_t>(r)] > 0)
        if (const std::string complaint = wait(r); !complaint.empty()) complaints += complaint + "; ";
    return complaints;
  }

 private:
  std::chrono::steady_clock::time_point deadline_;
  std::vector<pid_t> children_;
};

}  // namespace lsched::testing
