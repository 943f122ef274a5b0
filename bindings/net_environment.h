// The environment variables of the network between hosts (LSCHED_NET_...).
#pragma once

#include <net/if.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/environment.h"
#include "libsched/transport/net/wire_up.h"

namespace lsched {

struct network_choice {
  net_interfaces interfaces;
  std::string interfaces_from;  ///< the variable that names the interfaces; empty: none
  net_limits limits;
  bool encrypts = false;
};

inline std::vector<std::string> names_of_interfaces() {
  std::vector<std::string> names;
  const std::unique_ptr<struct if_nameindex, void (*)(struct if_nameindex*)> all(if_nameindex(), if_freenameindex);
  for (auto* one = all.get(); one != nullptr && one->if_index != 0; ++one) names.emplace_back(one->if_name);
  return names;
}

/// Chooses interfaces by a variable of another library. The variable is the first of UCX_NET_DEVICES,
/// GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME that names a usable interface. A usable interface has an address for
/// ranks. Names of other devices, such as mlx5_0:1, are ignored. In NCCL's variable, a word selects all interfaces
/// whose names begin with the word, "=" precedes complete names, and "^" excludes interfaces. The address family of
/// `made` must have been chosen before.
inline void choose_as_other_libraries(network_choice& made) {
  const std::vector<std::string> host = names_of_interfaces();
  for (const char* const variable : {"UCX_NET_DEVICES", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    const char* const set = text_in_environment(variable);
    if (set == nullptr) continue;
    std::string_view text = set;
    const bool is_of_nccl = variable[0] == 'N';
    const bool excludes = is_of_nccl && text.starts_with('^');
    if (excludes) text.remove_prefix(1);
    const bool has_beginnings = is_of_nccl && !text.starts_with('=');
    if (is_of_nccl && !has_beginnings) text.remove_prefix(1);
    const auto is_named = [&](const std::string& interface) {
      for (std::string_view rest = text; !rest.empty();) {
        const std::string_view name = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(rest.size(), name.size() + 1));
        if (interface == name || (has_beginnings && !name.empty() && interface.starts_with(name))) return true;
      }
      return excludes && interface == "lo";
    };
    net_interfaces chosen{.family = made.interfaces.family};
    std::ranges::copy_if(host, std::back_inserter(chosen.names),
                         [&](const std::string& interface) { return is_named(interface) != excludes; });
    if (chosen.names.empty() || addresses_of_host(chosen, 1).empty()) continue;
    made.interfaces.names = chosen.names;
    made.interfaces_from = variable;
    return;
  }
}

/// Returns the addresses to which ranks of other hosts connect, such as "eth0 10.0.0.1".
inline std::vector<std::string> addresses_by_interface(const net_interfaces& chosen) {
  const std::vector<net_address> used = addresses_of_host(chosen, net_listener::k_most_addresses);
  std::vector<std::string> all;
  for (const std::string& name : names_of_interfaces())
    for (const net_address& each : addresses_of_host({.names = {name}, .family = chosen.family}, used.size()))
      if (std::ranges::find(used, each) != used.end()) all.push_back(name + " " + each.host());
  return all;
}

/// Returns ARGUMENT, with the variable's name and value, if a variable has an invalid value.
inline result<network_choice> network_in_environment() {
  network_choice made;
  const auto wrong = [](const char* variable, std::string_view value, std::string_view expected) {
    return failure{status::argument,
                   std::string(variable) + " is \"" + std::string(value) + "\", not " + std::string(expected)};
  };
  if (const char* const set = text_in_environment("LSCHED_NET_FAMILY"); set != nullptr) {
    const std::string_view text = set;
    if (text != "4" && text != "6") return wrong("LSCHED_NET_FAMILY", text, "4 or 6");
    made.interfaces.family = text == "4" ? 4 : 6;
  }
  if (const char* const set = text_in_environment("LSCHED_NET_INTERFACES"); set != nullptr) {
    constexpr std::size_t k_longest_name = 15;
    for (std::string_view rest = set; !rest.empty();) {
      const std::string_view name = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
      if (name.empty() || name.size() > k_longest_name || name.find_first_of(" /") != std::string_view::npos)
        return wrong("LSCHED_NET_INTERFACES", set, "a list of interfaces such as eth0,ib*");
      made.interfaces.names.emplace_back(name);
    }
    made.interfaces_from = "LSCHED_NET_INTERFACES";
  } else {
    choose_as_other_libraries(made);
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
  if (const char* const set = text_in_environment("LSCHED_NET_ENCRYPT"); set != nullptr) {
    const std::string_view text = set;
    if (text != "tls" && text != "off") return wrong("LSCHED_NET_ENCRYPT", text, "tls or off");
    made.encrypts = text == "tls";
  }
  const auto seconds = number_in_environment("LSCHED_NET_LOST_AFTER", 1, 120);
  if (!seconds) return seconds.error();
  if (*seconds) made.limits.lost_after = std::chrono::seconds(**seconds);
  return made;
}

}  // namespace lsched
