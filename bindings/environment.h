// Access to environment variables of a process that opens a world. An empty variable counts as not set if a text is
// expected. If a number is expected, an empty variable is an error, because a launcher should have set the number.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "offload/open/launch.h"
#include "ops/base.h"
#include "ops/number_text.h"
#include "ops/size_text.h"
#include "ops/status.h"

namespace lsched {

/// Acts as getenv, but returns null in a program that runs with other rights than its caller (AT_SECURE).
inline const char* in_environment(const char* variable) { return secure_getenv(variable); }

/// Returns the value of `variable`, or null if the variable is not set or is empty.
inline const char* text_in_environment(const char* variable) {
  const char* const set = in_environment(variable);
  return set == nullptr || *set == '\0' ? nullptr : set;
}

/// Returns the path of the file for `lsched postmortem`, from LSCHED_RECORDER. Empty means no file.
inline std::string recorder_in_environment() {
  const char* const set = text_in_environment("LSCHED_RECORDER");
  return set == nullptr ? "" : set;
}

/// Returns the integer in `variable`, or nothing if the variable is not set. Returns ARGUMENT, with the variable's name
/// and value, if the value is not an integer from `least` to `most`.
inline result<std::optional<std::int32_t>> number_in_environment(
    const char* variable, std::int32_t least = 0, std::int32_t most = std::numeric_limits<std::int32_t>::max()) {
  const char* const set = in_environment(variable);
  if (set == nullptr) return std::optional<std::int32_t>();
  const auto value = parse_number<std::int32_t>(set);
  if (value && *value >= least && *value <= most) return value;
  return failure{status::argument, std::string(variable) + " is \"" + std::string(set) +
                                       "\", not a whole number from " + std::to_string(least) + " to " +
                                       std::to_string(most)};
}

/// Returns the size of each rank's shared region from LSCHED_REGION, or 0 if the variable is not set. Returns ARGUMENT
/// if the value is not a size or is below `least`, which is a multiple of 1 MiB.
inline result<std::uint64_t> region_in_environment(std::uint64_t least) {
  const char* const set = text_in_environment("LSCHED_REGION");
  if (set == nullptr) return std::uint64_t{0};
  const auto bytes = parse_size(set);
  if (bytes && *bytes >= least) return *bytes;
  const std::string words = "LSCHED_REGION is \"" + std::string(set) + "\", ";
  return failure{status::argument, bytes ? words + "less than the smallest region, " + std::to_string(least >> 20) +
                                               "M: set for example LSCHED_REGION=64M"
                                         : words + "not " + std::string(k_size_syntax)};
}

/// Returns true if `variable` is not set or is `by_default`, and false if the value is `other`. Returns ARGUMENT, with
/// the valid words, for any other value.
inline result<bool> choice_in_environment(const char* variable, std::string_view by_default, std::string_view other) {
  const char* const set = text_in_environment(variable);
  const std::string_view text = set == nullptr ? by_default : std::string_view(set);
  if (text == by_default || text == other) return text == by_default;
  return failure{status::argument, std::string(variable) + " is \"" + std::string(text) + "\": set " +
                                       std::string(by_default) + " or " + std::string(other)};
}

/// Returns true if `variable` is 1 or yes, and false if the variable is 0, no, or not set. Returns ARGUMENT for any
/// other value.
inline result<bool> switch_in_environment(const char* variable) {
  const char* const set = text_in_environment(variable);
  const std::string_view text = set == nullptr ? "0" : std::string_view(set);
  if (text == "1" || text == "yes") return true;
  if (text == "0" || text == "no") return false;
  return failure{status::argument, std::string(variable) + " is \"" + std::string(text) + "\": set 1 or 0 (yes or no)"};
}

inline result<std::optional<std::int32_t>> cuda_device_in_environment() {
  return number_in_environment("LSCHED_CUDA_DEVICE");
}

/// Returns true if streams of a GPU wait for rounds, and false if the host waits instead (LSCHED_CUDA_STREAMS=host).
inline result<bool> cuda_streams_in_environment() {
  return choice_in_environment("LSCHED_CUDA_STREAMS", "auto", "host");
}

/// Returns the launch of this process, or nothing if no local launcher started the process. Returns ARGUMENT if only
/// some of the launcher's variables are set, or if a value is invalid. A world of one rank would give wrong sums
/// without an error in these cases.
inline result<std::optional<launch>> find_launch() {
  launch found;
  const std::pair<const char*, std::int32_t*> contract[]{
      {k_run_descriptor, &found.descriptor}, {k_run_rank, &found.self}, {k_run_size, &found.size}};
  bool is_started = false;
  for (const auto& [variable, number] : contract) is_started |= in_environment(variable) != nullptr;
  if (!is_started) return std::optional<launch>();
  for (const auto& [variable, number] : contract) {
    const auto read = number_in_environment(variable);
    if (!read) return read.error();
    if (!*read)
      return failure{
          status::argument,
          std::string(variable) +
              " is not set, although other variables of `lsched run` are: start the program with `lsched run`"};
    *number = **read;
  }
  const auto launcher = number_in_environment(k_run_launcher);
  if (!launcher) return launcher.error();
  found.launcher = *launcher;
  return std::optional(found);
}

/// Returns ARGUMENT if traces with this prefix cannot be written. The check is made when a world opens, because closing
/// a world returns no diagnostic.
inline std::optional<failure> validate_trace(const std::string& prefix) {
  if (prefix.empty()) return std::nullopt;
  const auto slash = prefix.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : prefix.substr(0, slash + 1);
  if (access(folder.c_str(), W_OK | X_OK) == 0) return std::nullopt;
  return failure{status::argument,
                 "LSCHED_TRACE=" + prefix + " cannot be written: " + folder + ": " + std::strerror(errno)};
}

}  // namespace lsched
