// Copies the output streams of ranks, with the rank at the beginning of each line (`lsched run --prepend-rank`).
#pragma once

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lsched::cli {

/// An output stream of a rank (standard output or standard error), and its destination.
struct rank_output {
  std::int32_t rank;
  int from;
  std::FILE* to;
  std::string unfinished{};  ///< beginning of a line whose end has not been read yet
};

/// Longer lines are divided. This limits the memory for the output of a rank that never ends its line.
inline constexpr std::size_t k_longest_line = std::size_t{64} << 10;

/// Appends `piece` to the output. Returns the lines that are complete now, each with the rank in front.
inline std::string take_lines(rank_output& of, std::string_view piece) {
  std::string lines;
  const std::string rank = std::to_string(of.rank) + ": ";
  for (std::size_t end = 0; (end = piece.find('\n')) != std::string_view::npos;) {
    lines += rank + of.unfinished + std::string(piece.substr(0, end + 1));
    of.unfinished.clear();
    piece.remove_prefix(end + 1);
  }
  of.unfinished += piece;
  if (of.unfinished.size() >= k_longest_line) lines += rank + std::exchange(of.unfinished, {}) + "\n";
  return lines;
}

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
      const bool has_ended = got <= 0 && !one.unfinished.empty();
      const auto bytes = static_cast<std::size_t>(std::max<ssize_t>(got, 0));
      const std::string lines = take_lines(one, has_ended ? "\n" : std::string_view(piece.data(), bytes));
      std::fwrite(lines.data(), 1, lines.size(), one.to);
      std::fflush(one.to);
      if (got > 0) continue;
      waits[i].fd = -1;
      --left;
    }
}

}  // namespace lsched::cli
