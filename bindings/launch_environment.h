// What the environment says about a process that opens a runtime: who launched it, and where its trace goes.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "bindings/environment.h"
#include "ops/base.h"

namespace lsched {

/// The contract with the local launcher.
struct launch {
  int descriptor = -1;
  rank self = 0;
  rank size = 1;
};

/// Nothing where no local launcher has started this process. A contradictory environment is an error: a world of one
/// in its place would give wrong sums without a word.
inline result<std::optional<launch>> find_launch() {
  const bool is_started = std::getenv("LSCHED_RUN_FD") != nullptr || std::getenv("LSCHED_RUN_RANK") != nullptr ||
                          std::getenv("LSCHED_RUN_SIZE") != nullptr;
  if (!is_started) return std::optional<launch>();
  launch found;
  for (const auto& [variable, number] : {std::pair("LSCHED_RUN_FD", &found.descriptor),
                                         {"LSCHED_RUN_RANK", &found.self},
                                         {"LSCHED_RUN_SIZE", &found.size}}) {
    const auto read = number_in_environment(variable);
    if (!read) return read.error();
    if (!*read)
      return failure{status::argument, std::string(variable) + " is not set, as `lsched run` would have set it"};
    *number = **read;
  }
  return std::optional(found);
}

/// Said when a runtime opens: when it closes, there is nobody left to tell.
inline std::optional<failure> validate_trace(const std::string& prefix) {
  if (prefix.empty()) return std::nullopt;
  const auto slash = prefix.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : prefix.substr(0, slash + 1);
  if (access(folder.c_str(), W_OK | X_OK) == 0) return std::nullopt;
  return failure{status::argument,
                 "LSCHED_TRACE=" + prefix + " cannot be written: " + folder + ": " + std::strerror(errno)};
}

}  // namespace lsched
