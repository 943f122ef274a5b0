// Ranks as child processes of a test: forked, bounded in time, and ended by their own process id only.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ops/base.h"

namespace lsched::testing {

class child_ranks {
 public:
  /// Every child runs `body` with its rank and exits with what it answers. No child outlives `limit`: a long time,
  /// since where other programs want the cores every hand-over between two ranks may take milliseconds.
  child_ranks(rank ranks, std::function<int(rank)> body, std::chrono::seconds limit = std::chrono::seconds(100))
      : deadline_(std::chrono::steady_clock::now() + limit) {
    std::fflush(nullptr);
    for (rank r = 0; r < ranks; ++r) {
      const pid_t child = fork();
      if (child == 0) {
        alarm(static_cast<unsigned>(limit.count()) + 5);  // should the parent die
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

  /// Ends one child at once, whatever it does, and waits until it is gone.
  void kill(rank of, int signal = SIGKILL) {
    pid_t& child = children_[static_cast<std::size_t>(of)];
    if (child <= 0) return;
    ::kill(child, signal);
    waitpid(std::exchange(child, 0), nullptr, 0);
  }

  /// Stops one child, until it is killed.
  void stop(rank of) const { ::kill(children_[static_cast<std::size_t>(of)], SIGSTOP); }

  /// Waits for a child: what went wrong with it, or nothing.
  std::string wait(rank of) {
    pid_t& child = children_[static_cast<std::size_t>(of)];
    const std::string who = "rank " + std::to_string(of);
    int how = 0;
    for (pid_t ended = 0; ended == 0; usleep(500)) {
      ended = waitpid(child, &how, WNOHANG);
      if (ended < 0) return who + " was not started";
      if (ended == 0 && std::chrono::steady_clock::now() > deadline_) {
        kill(of);
        return who + " took too long";
      }
    }
    child = 0;
    if (WIFSIGNALED(how)) return who + " was ended by signal " + std::to_string(WTERMSIG(how));
    return WEXITSTATUS(how) == 0 ? std::string() : who + " exited with " + std::to_string(WEXITSTATUS(how));
  }

  /// Waits for all of them.
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
