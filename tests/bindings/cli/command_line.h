// Starts the command `lsched`, or another program, from a test. Reads the output and the exit status.
#pragma once

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lsched::testing {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using nlohmann::json;
using words = std::vector<std::string>;

constexpr std::chrono::seconds k_limit = 60s;
constexpr const char* k_scan = LSCHED_TEST_SOURCE_DIR "/docs/examples/scan.sched";
constexpr const char* k_ring = LSCHED_TEST_SOURCE_DIR "/docs/examples/my_ring.alg";

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline std::ptrdiff_t count_of(const std::string& text, const std::string& part) {
  std::ptrdiff_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// A process of the program under test. The destructor kills the process. A time limit also kills it.
class program {
 public:
  explicit program(const words& command, const std::map<std::string, std::string>& environment = {})
      : deadline_(clock::now() + k_limit) {
    std::array<int, 2> out{};
    std::array<int, 2> err{};
    if (pipe2(out.data(), O_CLOEXEC) != 0 || pipe2(err.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    process_ = fork();
    if (process_ == 0) {
      alarm(static_cast<unsigned>(k_limit.count()) + 5);
      dup2(out[1], STDOUT_FILENO);
      dup2(err[1], STDERR_FILENO);
      for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
      execvp(arguments[0], arguments.data());
      _exit(125);
    }
    close(out[1]);
    close(err[1]);
    streams_ = {stream{out[0], {}}, stream{err[0], {}}};
  }
  program(const program&) = delete;
  program& operator=(const program&) = delete;
  ~program() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    for (stream& it : streams_)
      if (it.descriptor >= 0) close(it.descriptor);
  }

  /// Reads output until the program and all of its descendants have closed their output. Returns the exit status, 128 +
  /// n if signal n has ended the program, or -1 if the time limit has passed.
  int finish() {
    while (streams_[0].descriptor >= 0 || streams_[1].descriptor >= 0)
      if (!read_some()) return -1;
    int how = 0;
    if (waitpid(process_, &how, 0) != std::exchange(process_, 0)) return -1;
    return WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
  }

  /// Reads until standard output (for wait_for_error: standard error) contains at least `times` occurrences of `text`.
  /// Returns false if the output ends first, or if the time limit passes first.
  bool wait_for_output(const std::string& text, int times) { return wait_for(0, text, times); }
  bool wait_for_error(const std::string& text, int times) { return wait_for(1, text, times); }

  void send(int signal) const { ::kill(process_, signal); }
  pid_t process() const { return process_; }
  const std::string& out() const { return streams_[0].text; }
  const std::string& err() const { return streams_[1].text; }

 private:
  struct stream {
    int descriptor = -1;
    std::string text{};
  };

  bool wait_for(std::size_t which, const std::string& text, int times) {
    while (count_of(streams_[which].text, text) < times)
      if (streams_[which].descriptor < 0 || !read_some()) return false;
    return true;
  }

  bool read_some() {
    std::array<pollfd, 2> waits{};
    for (std::size_t i = 0; i < 2; ++i) waits[i] = {streams_[i].descriptor, POLLIN, 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - clock::now());
    if (left <= 0ms || poll(waits.data(), waits.size(), static_cast<int>(left.count())) <= 0) return false;
    for (std::size_t i = 0; i < 2; ++i) {
      if (waits[i].revents == 0) continue;
      std::array<char, 4096> piece{};
      const ssize_t got = read(streams_[i].descriptor, piece.data(), piece.size());
      if (got > 0)
        streams_[i].text.append(piece.data(), static_cast<std::size_t>(got));
      else
        close(std::exchange(streams_[i].descriptor, -1));
    }
    return true;
  }

  clock::time_point deadline_;
  pid_t process_ = -1;
  std::array<stream, 2> streams_{};
};

struct outcome {
  int status = -1;
  std::string out;
  std::string err;
};

inline outcome run(words command, const std::map<std::string, std::string>& environment = {}) {
  program it(command, environment);
  const int status = it.finish();
  return {status, it.out(), it.err()};
}

/// Calls run(), and expects the exit status 0.
inline outcome run_well(const words& command, const std::map<std::string, std::string>& environment = {}) {
  outcome it = run(command, environment);
  std::string line;
  for (const std::string& word : command) line += word + " ";
  EXPECT_EQ(it.status, 0) << line << "\n" << it.err;
  return it;
}

/// Runs a shell command, in which `lsched` is the command under test. Standard error goes to the standard output.
inline outcome shell(const std::string& command) {
  const std::string folder = std::filesystem::path(LSCHED_TEST_COMMAND).parent_path();
  return run({"/bin/sh", "-c", "PATH=" + folder + ":$PATH; exec 2>&1; " + command});
}

inline words lsched(words arguments) {
  arguments.insert(arguments.begin(), LSCHED_TEST_COMMAND);
  return arguments;
}

/// Returns a command line of `lsched run` with `options`. Every rank runs the shell script.
inline words shell_ranks(words options, const std::string& script) {
  words command{"run"};
  command.insert(command.end(), options.begin(), options.end());
  for (const char* word : {"/bin/sh", "-c"}) command.emplace_back(word);
  command.push_back(script);
  return lsched(std::move(command));
}

inline std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A file in the temporary folder. The destructor removes the file.
struct temporary_file {
  explicit temporary_file(const std::string& content)
      : path(::testing::TempDir() + "lsched-world-" + std::to_string(getpid()) + "-" + std::to_string(++made()) +
             ".sched") {
    std::FILE* file = std::fopen(path.c_str(), "w");
    std::fwrite(content.data(), 1, content.size(), file);
    std::fclose(file);
  }
  ~temporary_file() { unlink(path.c_str()); }
  static int& made() {
    static int number = 0;
    return number;
  }
  std::string path;
};

inline std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) lines.push_back(json::parse(line));
  return lines;
}

inline json last_line_of(const std::string& text) {
  const std::string lines = text.substr(0, text.find_last_not_of('\n') + 1);
  return json::parse(lines.substr(lines.rfind('\n') + 1));
}

/// Returns the command line of three ranks of an endless soak. Each rank runs `script` before it opens its world.
inline words endless_ranks(const std::string& script) {
  return shell_ranks({"-n", "3"},
                     script + "; exec " + LSCHED_TEST_COMMAND + " soak --iterations 1000000000000 --progress");
}

/// Returns the text of an algorithm file: a broadcast in which the root sends to each rank in turn.
inline std::string broadcast(const std::string& name, const std::string& head) {
  return "libsched algorithm 1\nname \"" + name + "\"\ncollective bcast\n" + head +
         "for s in 1 .. P - 1\n  if r == root\n    send in to (root + s) mod P\n"
         "  else if r == (root + s) mod P\n    out = recv from root\n  end\nend\n";
}

/// Returns all processes on this machine whose command line contains this word.
inline std::vector<pid_t> processes_with(const std::string& word) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos &&
        contains(content_of(entry.path() / "cmdline"), '\0' + word + '\0'))
      found.push_back(std::stoi(name));
  }
  return found;
}

/// Runs the command on a terminal. Types `typed` when the prompt appears. Returns the output.
inline std::string on_terminal(const words& command, const std::string& prompt = "", std::string typed = "") {
  int reader = -1;
  const pid_t process = forkpty(&reader, nullptr, nullptr, nullptr);
  if (process == 0) {
    alarm(static_cast<unsigned>(k_limit.count()));
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execv(arguments[0], arguments.data());
    _exit(125);
  }
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t got = 0; (got = read(reader, piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<std::size_t>(got));
    if (typed.empty() || !contains(text, prompt)) continue;
    EXPECT_EQ(write(reader, typed.data(), typed.size()), std::ssize(typed));
    typed.clear();
  }
  close(reader);
  waitpid(process, nullptr, 0);
  return text;
}

}  // namespace lsched::testing
