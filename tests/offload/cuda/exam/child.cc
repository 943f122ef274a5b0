#include "tests/offload/cuda/exam/child.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "microbench/harness.h"
#include "tests/support/wait_until.h"

namespace lsched::exam {
namespace {

[[noreturn]] void become(const std::vector<std::string>& arguments) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // ends this child if a time limit kills the parent
  std::vector<char*> words;
  for (const std::string& each : arguments) words.push_back(const_cast<char*>(each.c_str()));
  words.push_back(nullptr);
  execv("/proc/self/exe", words.data());
  _exit(127);
}

}  // namespace

ending run_child(const std::vector<std::string>& arguments, double limit_s) {
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  const pid_t child = fork();
  if (child < 0) throw bench::failed("cannot start a process");
  if (child == 0) become(arguments);
  ending it;
  it.is_late = !testing::wait_for_end(child, std::chrono::milliseconds(static_cast<std::int64_t>(limit_s * 1e3)));
  kill(-child, SIGKILL);  // also kills processes that the child has started
  int status = 0;
  waitpid(child, &status, 0);
  it.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  it.seconds = seconds();
  return it;
}

}  // namespace lsched::exam
