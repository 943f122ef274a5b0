// A file that is read as a whole.
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

/// Of what a command reads.
inline constexpr std::uint64_t k_most_file_bytes = std::uint64_t{256} << 20;

/// "is a directory": what the system says of an error, as the end of a sentence.
inline std::string reason_of(int error) {
  std::string text = std::strerror(error);
  text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

/// All of it but for a byte order mark, also out of a pipe. ARGUMENT, "PATH: why", for what cannot be read, and for
/// more than `most_bytes`: some files, like /dev/zero, never end.
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
                 path + ": has more than the " + std::to_string(most_bytes >> 20) + " MiB that a file may have"};
}

}  // namespace lsched
