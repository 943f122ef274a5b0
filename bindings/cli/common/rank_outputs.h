// The output streams of ranks, whose lines begin with the rank (`lsched run --prepend-rank`).
#pragma once

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace lsched::cli {

/// An output stream of a rank (standard output or standard error), and its destination.
struct rank_output {
  std::int32_t rank;
  int from;
  std::FILE* to;
  std::string unfinished{};  ///< beginning of a line, whose newline has not been read yet
};

/// Copies the outputs of all ranks line by line, with the rank in front of each line. Returns when all write ends of
/// the pipes are closed.
inline void prepend_ranks(std::vector<rank_output> outputs) {
  std::vector<pollfd> waits;
  for (const rank_output& each : outputs) waits.push_back({each.from, POLLIN, 0});
  for (std::size_t left = outputs.size(); left > 0 && (poll(waits.data(), waits.size(), -1) > 0 || errno == EINTR);)
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (std::exchange(waits[i].revents, 0) == 0) continue;
      rank_output& one = outputs[i];
      std::array<char, 4096> piece{};
      const ssize_t got = read(one.from, piece.data(), piece.size());
      if (got > 0) one.unfinished.append(piece.data(), static_cast<std::size_t>(got));
      if (got <= 0 && !one.unfinished.empty()) one.unfinished += '\n';
      std::string lines;
      std::size_t begin = 0;
      for (std::size_t end = 0; (end = one.unfinished.find('\n', begin)) != std::string::npos; begin = end + 1)
        lines += std::to_string(one.rank) + ": " + one.unfinished.substr(begin, end + 1 - begin);
      one.unfinished.erase(0, begin);
      std::fwrite(lines.data(), 1, lines.size(), one.to);
      std::fflush(one.to);
      if (got > 0) continue;
      waits[i].fd = -1;
      --left;
    }
}

}  // namespace lsched::cli
