// The log of the library: lines "libsched [rank R] LEVEL: text" on standard error.
//
// Most errors are returned by calls, as a status and a diagnostic. So the library logs only events that belong to no
// call. LSCHED_LOG sets the lowest level that is printed: error, warning (the default) or info.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "bindings/environment.h"
#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

enum class log_level : std::uint8_t { error, warning, info };

inline constexpr std::array<std::string_view, 3> k_log_levels{"error", "warning", "info"};

/// Returns the level that LSCHED_LOG sets. Returns ARGUMENT for a value that is not a level.
inline result<log_level> log_level_in_environment() {
  const char* const set = text_in_environment("LSCHED_LOG");
  if (set == nullptr) return log_level::warning;
  for (std::size_t i = 0; i < k_log_levels.size(); ++i)
    if (set == k_log_levels[i]) return static_cast<log_level>(i);
  return failure{status::argument, "LSCHED_LOG is \"" + std::string(set) + "\", not error, warning or info"};
}

inline std::string log_line(log_level level, rank self, std::string_view text) {
  return "libsched [rank " + std::to_string(self) + "] " + std::string(k_log_levels[static_cast<std::size_t>(level)]) +
         ": " + std::string(text) + "\n";
}

/// Prints the line if LSCHED_LOG includes its level. The line is written in one call, so that lines of several threads
/// do not mix. Any thread may call this function.
inline void log(log_level level, rank self, std::string_view text) {
  const auto most = log_level_in_environment();
  if (most && level <= *most) std::fputs(log_line(level, self, text).c_str(), stderr);
}

}  // namespace lsched
