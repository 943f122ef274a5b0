#include "bindings/cli/input_file.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "bindings/cli/errors.h"

namespace lsched::cli {

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content;
  std::array<char, 1 << 16> piece{};
  while (file.read(piece.data(), piece.size()), file.gcount() > 0) {
    content.append(piece.data(), static_cast<std::size_t>(file.gcount()));
    if (content.size() > k_most_file_bytes)
      throw command_failure(path + ": has more than the " + std::to_string(k_most_file_bytes >> 20) +
                            " MiB that a file may have");
  }
  if (!file.is_open() || file.bad()) throw command_failure("cannot read " + path + ": " + std::strerror(errno));
  return content;
}

}  // namespace lsched::cli
