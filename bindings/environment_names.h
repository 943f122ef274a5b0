// The environment variables that the library knows, and those that are set but mean nothing to it.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "ops/nearest_word.h"

namespace lsched {

struct environment_variable {
  std::string_view name;
  std::string_view unset;   ///< what holds where it is not set
  std::string_view values;  ///< the words it takes, separated by "|"; empty: anything
  std::string_view purpose;
};

inline constexpr std::array k_environment_variables{
    environment_variable{"LSCHED_PROGRESS", "thread", "thread|caller",
                         "who serves the engine while the application computes"},
    environment_variable{"LSCHED_IDLE", "auto", "auto|spin|yield|park", "what a waiting thread does"},
    environment_variable{"LSCHED_LANE", "auto", "auto|inline|tbb|tbb:WORKERS", "where large arithmetic runs"},
    environment_variable{"LSCHED_READ_PEERS", "yes", "yes|no",
                         "large messages are read from the sender's process where the system permits it"},
    environment_variable{"LSCHED_ALGORITHM", "", "", "what auto is: collective=algorithm,..."},
    environment_variable{"LSCHED_ALGORITHM_FILES", "", "",
                         "algorithm files, loaded when a world is opened: path:path:..."},
    environment_variable{"LSCHED_TUNING", "", "", "file with the tuning table that auto goes by"},
    environment_variable{"LSCHED_LOG", "warning", "error|warning|info", "which lines go to standard error"},
    environment_variable{"LSCHED_TRACE", "", "", "prefix: every rank writes a trace to PREFIX.RANK.json"},
    environment_variable{"LSCHED_RECORDER", "", "",
                         "file for `lsched postmortem`: where each rank is, also after its end"},
    environment_variable{"LSCHED_REGION", "", "", "address space of a rank's shared region, such as 64M"},
    environment_variable{"LSCHED_START_TIMEOUT", "60", "",
                         "seconds for which ranks wait until all have opened their world"},
    environment_variable{"LSCHED_TOUCH", "no", "yes|no",
                         "memory gets its pages when a schedule is created, not in its first round"},
    environment_variable{"LSCHED_VERIFY", "0", "0|1|no|yes",
                         "schedules are proved on all ranks when they are created or committed"},
    environment_variable{"LSCHED_WORLD", "", "alone", "a world of one, whoever has started the process"},
    environment_variable{"LSCHED_CUDA_DEVICE", "", "", "number of the GPU whose memory may hold buffers"},
    environment_variable{"LSCHED_CUDA_STREAMS", "auto", "auto|host",
                         "who waits where a GPU's stream is to wait for a round"},
    environment_variable{"LSCHED_RANKS_PER_NODE", "", "", "every that many ranks make a node of their own"},
    environment_variable{"LSCHED_RUN_FD", "", "", "set by `lsched run`: descriptor of the shared segment"},
    environment_variable{"LSCHED_RUN_RANK", "", "", "set by `lsched run`: this process's rank"},
    environment_variable{"LSCHED_RUN_SIZE", "", "", "set by `lsched run`: number of ranks"},
    environment_variable{"LSCHED_RUN_LAUNCHER", "", "",
                         "set by `lsched run`: descriptor through which ranks end with it"},
};

/// "LSCHED_LAN is not a variable of libsched; did you mean LSCHED_LANE?" for each variable of the environment that has
/// our prefix and is none of ours, in alphabetical order. (LSCHED_TEST_ is the prefix of the library's own tests.)
inline std::vector<std::string> unknown_variables() {
  constexpr std::string_view k_prefix = "LSCHED_";
  std::array<std::string_view, k_environment_variables.size()> known{};  // without the prefix, which all share
  std::ranges::transform(k_environment_variables, known.begin(),
                         [&](const environment_variable& each) { return each.name.substr(k_prefix.size()); });
  std::vector<std::string> lines;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with(k_prefix) || name.starts_with("LSCHED_TEST_")) continue;
    const std::string_view rest = name.substr(k_prefix.size());
    if (std::ranges::find(known, rest) != known.end()) continue;
    const std::string_view near = nearest_word(rest, known);
    lines.push_back(std::string(name) + " is not a variable of libsched" +
                    (near.empty() ? "" : "; did you mean " + std::string(k_prefix) + std::string(near) + "?"));
  }
  std::ranges::sort(lines);
  return lines;
}

}  // namespace lsched
