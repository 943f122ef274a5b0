// The environment variables of the network between hosts (LSCHED_NET_...).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "bindings/environment.h"
#include "libsched/transport/net/wire_up.h"

namespace lsched {

struct network_choice {
  net_interfaces interfaces;
  net_limits limits;
  bool encrypts = false;
};

/// Returns ARGUMENT, with the variable's name and value, if a variable has an invalid value.
inline result<network_choice> network_in_environment() {
  network_choice made;
  const auto wrong = [](const char* variable, std::string_view value, std::string_view expected) {
    return failure{status::argument,
                   std::string(variable) + " is \"" + std::string(value) + "\", not " + std::string(expected)};
  };
  if (const char* const set = text_in_environment("LSCHED_NET_INTERFACES"); set != nullptr) {
    constexpr std::size_t k_longest_name = 15;
    for (std::string_view rest = set; !rest.empty();) {
      const std::string_view name = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
      if (name.empty() || name.size() > k_longest_name || name.find_first_of(" /") != std::string_view::npos)
        return wrong("LSCHED_NET_INTERFACES", set, "a list of interfaces such as eth0,ib*");
      made.interfaces.names.emplace_back(name);
    }
  }
  if (const char* const set = text_in_environment("LSCHED_NET_PORTS"); set != nullptr) {
    const std::string_view text = set;
    const auto first = parse_number<std::uint16_t>(text.substr(0, text.find('-')));
    const auto last =
        text.find('-') == std::string_view::npos ? first : parse_number<std::uint16_t>(text.substr(text.find('-') + 1));
    if (!first || !last || *first == 0 || *last < *first)
      return wrong("LSCHED_NET_PORTS", text, "a range of ports such as 20000-20099");
    made.interfaces.first_port = *first;
    made.interfaces.last_port = *last;
  }
  if (const char* const set = text_in_environment("LSCHED_NET_FAMILY"); set != nullptr) {
    const std::string_view text = set;
    if (text != "4" && text != "6") return wrong("LSCHED_NET_FAMILY", text, "4 or 6");
    made.interfaces.family = text == "4" ? 4 : 6;
  }
  if (const char* const set = text_in_environment("LSCHED_NET_ENCRYPT"); set != nullptr) {
    const std::string_view text = set;
    if (text != "tls" && text != "off") return wrong("LSCHED_NET_ENCRYPT", text, "tls or off");
    made.encrypts = text == "tls";
  }
  const auto seconds = number_in_environment("LSCHED_NET_LOST_AFTER", 1, 3600);
  if (!seconds) return seconds.error();
  if (*seconds) made.limits.lost_after = std::chrono::seconds(**seconds);
  return made;
}

}  // namespace lsched
