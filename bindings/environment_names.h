// The environment variables of the library, and a search for unknown variables that begin with LSCHED_.
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
  std::string_view unset;   ///< the value that applies if the variable is not set
  std::string_view values;  ///< the valid words, separated by "|"; empty: any text
  std::string_view purpose;
};

/// The command that starts programs on other hosts, if LSCHED_RSH is not set. With these options, ssh asks no
/// questions, and ends after 15 seconds without an answer of the host.
inline constexpr std::string_view k_remote_shell = "ssh -oBatchMode=yes -oConnectTimeout=15 -oServerAliveInterval=5";

inline constexpr std::array k_environment_variables{
    environment_variable{"LSCHED_PROGRESS", "thread", "thread|caller",
                         "execution of rounds while the application computes: by a progress thread, or only in calls"},
    environment_variable{"LSCHED_IDLE", "auto", "auto|spin|yield|park", "behaviour of a waiting thread"},
    environment_variable{"LSCHED_LANE", "auto", "auto|inline|tbb|tbb:WORKERS", "threads that compute large reductions"},
    environment_variable{"LSCHED_READ_PEERS", "yes", "yes|no",
                         "large messages are read from the sender's process where the system permits it"},
    environment_variable{"LSCHED_ALGORITHM", "", "", "algorithms in place of auto: collective=algorithm,..."},
    environment_variable{"LSCHED_ALGORITHM_FILES", "", "",
                         "algorithm files, loaded when a world is opened: path:path:..."},
    environment_variable{"LSCHED_TUNING", "", "", "file with the tuning table for auto"},
    environment_variable{"LSCHED_LOG", "warning", "error|warning|info", "lowest severity of lines on standard error"},
    environment_variable{"LSCHED_TRACE", "", "", "prefix: every rank writes a trace to PREFIX.RANK.json"},
    environment_variable{"LSCHED_RECORDER", "", "",
                         "file for `lsched postmortem`, with the state of each rank, also after the rank has ended"},
    environment_variable{"LSCHED_REGION", "", "", "size of the shared memory region of a rank, such as 64M"},
    environment_variable{"LSCHED_START_TIMEOUT", "60", "",
                         "seconds for which ranks wait until all have opened their world"},
    environment_variable{"LSCHED_TOUCH", "no", "yes|no",
                         "memory pages are allocated when a schedule is created, not in the first round"},
    environment_variable{"LSCHED_VERIFY", "0", "0|1|no|yes",
                         "schedules are proved on all ranks when they are created or committed"},
    environment_variable{"LSCHED_WORLD", "", "alone", "opens a world of one rank, also under a launcher"},
    environment_variable{"LSCHED_CUDA_DEVICE", "", "", "number of the GPU whose memory may hold buffers"},
    environment_variable{"LSCHED_CUDA_STREAMS", "auto", "auto|host",
                         "place where the work of a GPU stream waits for a round: on the GPU, or on the host"},
    environment_variable{"LSCHED_RANKS_PER_NODE", "", "", "number of ranks that form a node"},
    environment_variable{"LSCHED_NET_INTERFACES", "", "", "network interfaces between hosts, such as eth0,ib*"},
    environment_variable{"LSCHED_NET_PORTS", "", "", "ports to listen on, such as 20000-20099"},
    environment_variable{"LSCHED_NET_FAMILY", "", "", "4 or 6: version of the Internet Protocol between hosts"},
    environment_variable{"LSCHED_NET_LOST_AFTER", "3", "",
                         "seconds of silence after which a rank of another host is lost"},
    environment_variable{"LSCHED_NET_ENCRYPT", "off", "off|tls", "encryption of connections between hosts"},
    environment_variable{"LSCHED_RSH", k_remote_shell, "",
                         "command with which `lsched run --hosts` starts programs on hosts"},
    environment_variable{"LSCHED_RUN_FD", "", "",
                         "set by `lsched run`: descriptor of the shared segment, or of a socket to the launcher"},
    environment_variable{"LSCHED_RUN_RANK", "", "", "set by `lsched run`: this process's rank"},
    environment_variable{"LSCHED_RUN_SIZE", "", "", "set by `lsched run`: number of ranks"},
    environment_variable{"LSCHED_RUN_LAUNCHER", "", "",
                         "set by `lsched run`: descriptor through which the end of the command ends the ranks"},
};

/// Returns a line for each environment variable that has the prefix LSCHED_ but is unknown. An example is "LSCHED_LAN
/// is not a variable of libsched; did you mean LSCHED_LANE?". The lines are in alphabetical order. Variables with the
/// prefix LSCHED_TEST_ belong to the library's own tests, and are ignored.
inline std::vector<std::string> unknown_variables() {
  constexpr std::string_view k_prefix = "LSCHED_";
  std::array<std::string_view, k_environment_variables.size()> known{};  // without the prefix
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
