// The ranks that the command asks the agent of a host to start.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lsched::cli {

/// The first line that an agent prints begins with these words. The number is the version of the frames.
inline constexpr std::string_view k_agent_greeting = "lsched-agent 4 ";

struct agent_order {
  std::int32_t first = 0, ranks = 1, ranks_of_world = 1;
  std::int32_t start_timeout_s = 0;
  bool bind = false, prepends_rank = false;
  bool ignores_interrupts = false, ignores_hangups = false;  ///< ranks start with SIGINT or SIGHUP ignored
  std::string title;   ///< beginning of the lines that the launcher of the host prints
  std::string master;  ///< MASTER_ADDR
  std::uint16_t master_port = 0;
  std::string folder;                    ///< working directory
  std::vector<std::string> words;        ///< program and arguments
  std::vector<std::string> environment;  ///< NAME=VALUE

  /// text() returns the order as bytes, and read() parses these bytes. Words and variables contain no null characters.
  std::string text() const;
  static std::optional<agent_order> read(std::string_view text);
};

}  // namespace lsched::cli
