// Numbers of things, as people read them.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace lsched {

/// "1 message", "2 messages", "0 messages"; of nouns whose plural ends in s.
template <std::integral Number>
std::string counted(Number number, std::string_view noun) {
  return std::to_string(number).append(" ").append(noun).append(number == 1 ? "" : "s");
}

}  // namespace lsched
