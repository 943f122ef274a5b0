// The addresses by which other hosts reach this host.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libsched/transport/net/descriptor.h"

namespace lsched {

/// The address of a listening socket. Ranks send the bytes of this struct to other ranks.
struct net_address {
  std::uint8_t family = 0;  ///< 4 or 6
  std::uint8_t prefix = 0;  ///< number of leading bits that the addresses of the subnet share
  std::uint16_t port = 0;
  std::uint32_t scope = 0;  ///< index of the interface, for link-local IPv6 addresses
  std::array<std::uint8_t, 16> bytes{};

  /// Returns the address in the form that bind() and connect() expect, and sets *length to its size.
  sockaddr_storage to_system(socklen_t* length) const;
  /// Returns a readable form, such as 10.0.0.1 or [fd00::1].
  std::string host() const;
  /// Returns a readable form with the port, such as 10.0.0.1:4242 or [fd00::1]:4242.
  std::string text() const;
  /// Returns true if both addresses are in the same subnet.
  bool is_near(const net_address& other) const;
  bool is_loopback() const;
  bool is_link_local() const;
  friend bool operator==(const net_address&, const net_address&) = default;
};

/// Returns a non-blocking stream socket for addresses of the family of `like`. Returns an empty descriptor, and sets
/// errno, if the kernel refuses.
descriptor new_socket(const net_address& like);

/// Sets an option of a socket, and ignores a refusal of the kernel.
void set_option(int socket, int level, int option, int value);

/// Begins to connect a non-blocking socket. Returns false, and sets errno, if the attempt has failed at once.
bool begin_connection(int socket, const net_address& to);

/// The interfaces that a rank uses.
struct net_interfaces {
  /// Names such as eth0, or beginnings of names such as ib*. If the list is empty, a rank uses all interfaces that are
  /// up. The loopback interface is then used only if no other interface is up.
  std::vector<std::string> names{};
  std::uint8_t family = 0;       ///< 4 or 6; 0: both
  std::uint16_t first_port = 0;  ///< lowest port to listen on; 0: the kernel chooses the port
  std::uint16_t last_port = 0;   ///< highest port to listen on
};

/// Return the addresses of the two ends of a socket. The family is 0 if the socket has no such address.
net_address own_end(int socket);
net_address peer_end(int socket);

/// Returns the names of the interfaces of this host that are up, such as "lo, eth0".
std::string interfaces_of_host();

/// Returns the addresses of this host on the chosen interfaces, without ports. Returns at most `most` addresses, and
/// sorts link-local addresses to the end. Returns an empty list if no interface fits.
std::vector<net_address> addresses_of_host(const net_interfaces& chosen, std::size_t most);

/// Sorts the addresses of a peer: addresses in a subnet of this host come first.
void sort_by_nearness(std::span<net_address> theirs, std::span<const net_address> own);

}  // namespace lsched
