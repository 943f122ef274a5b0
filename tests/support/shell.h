// Shell commands that tests run.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace lsched::testing {

struct shell_result {
  int status = 0;      ///< exit status; 128 if a signal has ended the shell
  std::string output;  ///< standard output
};

inline shell_result run_shell(const std::string& command) {
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen");
  shell_result made;
  std::array<char, 4096> piece{};
  for (std::size_t got = 0; (got = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;)
    made.output.append(piece.data(), got);
  const int how = pclose(pipe);
  made.status = WIFEXITED(how) ? WEXITSTATUS(how) : 128;
  return made;
}

}  // namespace lsched::testing
