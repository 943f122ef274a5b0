// Redirection of a command's output to the file of an option such as `--json FILE`.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "bindings/cli/common/errors.h"
#include "bindings/input_file.h"

namespace lsched::cli {

/// Redirects standard output to the file `path`. Does nothing if `path` is "-" or empty. A command should call this
/// function before long work, so that it fails early if the file cannot be written. Throws command_failure.
inline void print_to(const std::string& path) {
  if (path.empty() || path == "-") return;
  std::fflush(stdout);
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) throw command_failure(LSCHED_ERR_ARGUMENT, path + ": cannot be written: " + reason_of(errno));
  const int answer = dup2(file, STDOUT_FILENO);
  close(file);
  if (answer < 0)
    throw command_failure(LSCHED_ERR_ARGUMENT, path + ": cannot be used as standard output: " + reason_of(errno));
}

}  // namespace lsched::cli
