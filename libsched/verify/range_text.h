#pragma once

#include <cstdint>
#include <string>

namespace lsched::symbolic {

inline std::string range_text(std::uint64_t begin, std::uint64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

}  // namespace lsched::symbolic
