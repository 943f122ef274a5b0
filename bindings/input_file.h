// A file that a command reads as a whole.
#pragma once

#include <cstdint>
#include <string>

namespace lsched::cli {

inline constexpr std::uint64_t k_most_file_bytes = std::uint64_t{256} << 20;

/// All of it, also out of a pipe. Throws command_failure for what cannot be read, and for more than k_most_file_bytes:
/// some files, like /dev/zero, never end.
std::string content_of(const std::string& path);

}  // namespace lsched::cli
