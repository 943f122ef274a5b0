// Runs a function (a trial) in a child process, so that a signal or a hang does not end the command.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>

namespace lsched::cli::doctor {

struct trial_result {
  int wait_status = 0;  ///< status that waitpid(2) returned
  std::string text;     ///< output of the trial

  bool has_succeeded() const { return WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0; }
};

/// Runs `trial` in a child process. The argument of `trial` is a descriptor for the output, and the result of `trial`
/// is the exit status. A child that runs longer than 10 s is killed.
inline trial_result try_in_child(const std::function<int(int)>& trial) {
  constexpr std::chrono::seconds k_limit{10};
  trial_result made{.wait_status = -1, .text = {}};
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return made;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    _exit(trial(ends[1]));
  }
  close(ends[1]);
  const auto deadline = std::chrono::steady_clock::now() + k_limit;
  for (bool is_open = child > 0; is_open;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd news{ends[0], POLLIN, 0};
    std::array<char, 4096> piece{};
    const bool is_in_time = left.count() > 0 && poll(&news, 1, static_cast<int>(left.count())) > 0;
    const ssize_t got = is_in_time ? read(ends[0], piece.data(), piece.size()) : 0;
    if (got > 0) made.text.append(piece.data(), static_cast<std::size_t>(got));
    if (!is_in_time) kill(child, SIGKILL);
    is_open = got > 0;
  }
  close(ends[0]);
  if (child > 0) waitpid(child, &made.wait_status, 0);
  return made;
}

}  // namespace lsched::cli::doctor
