// Reads a whole file.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "ops/status.h"

namespace lsched {

/// The maximum size of a file that a command reads.
inline constexpr std::uint64_t k_most_file_bytes = std::uint64_t{256} << 20;

/// Returns the system's text of an errno value, in lower case for the end of a sentence, such as "is a directory".
inline std::string reason_of(int error) {
  std::string text = std::strerror(error);
  text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

/// Returns the content of a file or a pipe, without a byte order mark. Returns ARGUMENT, with the path and the reason,
/// if the file cannot be read or has more than `most_bytes`. The limit exists because some files, such as /dev/zero,
/// never end.
inline result<std::string> content_of(const std::string& path, std::uint64_t most_bytes = k_most_file_bytes) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return failure{status::argument, path + ": " + reason_of(errno)};
  std::string content;
  std::array<char, 1 << 16> piece{};
  ssize_t got = 0;
  do {
    got = read(file, piece.data(), piece.size());
    if (got > 0) content.append(piece.data(), static_cast<std::size_t>(got));
  } while (content.size() <= most_bytes && (got > 0 || (got < 0 && errno == EINTR)));
  const int error = errno;
  close(file);
  if (got < 0) return failure{status::argument, path + ": " + reason_of(error)};
  if (content.starts_with("\xef\xbb\xbf")) content.erase(0, 3);
  if (content.size() <= most_bytes) return content;
  return failure{status::argument,
                 path + ": the file exceeds the limit of " + std::to_string(most_bytes >> 20) + " MiB"};
}

}  // namespace lsched
