#include "libsched/transport/net/net_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

namespace lsched {
namespace {

std::size_t size_of(std::uint8_t family) { return family == 4 ? 4 : 16; }

const void* bytes_of(const sockaddr* from) {
  if (from->sa_family == AF_INET) return &reinterpret_cast<const sockaddr_in*>(from)->sin_addr;
  return &reinterpret_cast<const sockaddr_in6*>(from)->sin6_addr;
}

net_address address_of(const ifaddrs& of) {
  net_address made{.family = static_cast<std::uint8_t>(of.ifa_addr->sa_family == AF_INET ? 4 : 6)};
  std::memcpy(made.bytes.data(), bytes_of(of.ifa_addr), size_of(made.family));
  if (made.family == 6) made.scope = reinterpret_cast<const sockaddr_in6*>(of.ifa_addr)->sin6_scope_id;
  if (of.ifa_netmask == nullptr) return made;
  std::array<std::uint8_t, 16> mask{};
  std::memcpy(mask.data(), bytes_of(of.ifa_netmask), size_of(made.family));
  for (const std::uint8_t one : mask) made.prefix = static_cast<std::uint8_t>(made.prefix + std::popcount(one));
  return made;
}

net_address end_of(int socket, int (*ask)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage where{};
  socklen_t length = sizeof where;
  if (ask(socket, reinterpret_cast<sockaddr*>(&where), &length) != 0) return {};
  if (where.ss_family != AF_INET && where.ss_family != AF_INET6) return {};
  const auto* const address = reinterpret_cast<const sockaddr*>(&where);
  net_address made{.family = static_cast<std::uint8_t>(where.ss_family == AF_INET ? 4 : 6)};
  std::memcpy(made.bytes.data(), bytes_of(address), size_of(made.family));
  if (made.family == 6) made.scope = reinterpret_cast<const sockaddr_in6*>(address)->sin6_scope_id;
  made.port = ntohs(made.family == 4 ? reinterpret_cast<const sockaddr_in*>(address)->sin_port
                                     : reinterpret_cast<const sockaddr_in6*>(address)->sin6_port);
  return made;
}

bool is_named(std::string_view interface, const std::string& pattern) {
  if (pattern.ends_with('*')) return interface.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
  return interface == pattern;
}

bool is_usable(const ifaddrs& of, const net_interfaces& chosen) {
  if (of.ifa_addr == nullptr || (of.ifa_flags & IFF_UP) == 0 || (of.ifa_flags & IFF_RUNNING) == 0) return false;
  const int family = of.ifa_addr->sa_family;
  if (family != AF_INET && family != AF_INET6) return false;
  if (chosen.family != 0 && family != (chosen.family == 4 ? AF_INET : AF_INET6)) return false;
  return chosen.names.empty() ||
         std::ranges::any_of(chosen.names, [&](const auto& name) { return is_named(of.ifa_name, name); });
}

}  // namespace

sockaddr_storage net_address::to_system(socklen_t* length) const {
  sockaddr_storage made{};
  if (family == 4) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(made);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, bytes.data(), 4);
    *length = sizeof v4;
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(made);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    v6.sin6_scope_id = scope;
    std::memcpy(&v6.sin6_addr, bytes.data(), 16);
    *length = sizeof v6;
  }
  return made;
}

std::string net_address::host() const {
  std::array<char, INET6_ADDRSTRLEN> made{};
  inet_ntop(family == 4 ? AF_INET : AF_INET6, bytes.data(), made.data(), made.size());
  return family == 4 ? made.data() : "[" + std::string(made.data()) + "]";
}

std::string net_address::text() const { return host() + ":" + std::to_string(port); }

bool net_address::is_near(const net_address& other) const {
  if (family != other.family || prefix != other.prefix || is_link_local()) return false;
  for (std::size_t bit = 0; bit < prefix; ++bit)
    if (((bytes[bit / 8] ^ other.bytes[bit / 8]) >> (7 - bit % 8) & 1) != 0) return false;
  return true;
}

bool net_address::is_loopback() const {
  if (family == 4) return bytes[0] == 127;
  return std::ranges::count(bytes, 0) == 15 && bytes[15] == 1;
}

bool net_address::is_link_local() const {
  return family == 4 ? bytes[0] == 169 && bytes[1] == 254 : bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

net_address own_end(int socket) { return end_of(socket, ::getsockname); }
net_address peer_end(int socket) { return end_of(socket, ::getpeername); }

std::string interfaces_of_host() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(first, freeifaddrs);
  std::vector<std::string> names;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next)
    if (is_usable(*one, {}) && std::ranges::find(names, one->ifa_name) == names.end())
      names.emplace_back(one->ifa_name);
  std::string text;
  for (const std::string& each : names) text += (text.empty() ? "" : ", ") + each;
  return text;
}

std::vector<net_address> addresses_of_host(const net_interfaces& chosen, std::size_t most) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(first, freeifaddrs);
  std::vector<net_address> found;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next)
    if (is_usable(*one, chosen)) found.push_back(address_of(*one));
  const bool has_other = !std::ranges::all_of(found, &net_address::is_loopback);
  if (chosen.names.empty() && has_other) std::erase_if(found, [](const auto& one) { return one.is_loopback(); });
  std::ranges::stable_sort(found, {}, &net_address::is_link_local);
  if (found.size() > most) found.resize(most);
  return found;
}

void sort_by_nearness(std::span<net_address> theirs, std::span<const net_address> own) {
  std::ranges::stable_sort(theirs, {}, [&](const net_address& one) {
    return std::ranges::none_of(own, [&](const net_address& mine) { return mine.is_near(one); });
  });
}

descriptor new_socket(const net_address& like) {
  return make_descriptor(
      [&] { return ::socket(like.family == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
}

void set_option(int socket, int level, int option, int value) {
  (void)setsockopt(socket, level, option, &value, sizeof value);
}

bool begin_connection(int socket, const net_address& to) {
  socklen_t length = 0;
  const sockaddr_storage where = to.to_system(&length);
  return ::connect(socket, reinterpret_cast<const sockaddr*>(&where), length) == 0 || errno == EINPROGRESS;
}

}  // namespace lsched
