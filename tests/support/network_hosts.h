// Emulates the hosts of a test by network namespaces of Linux. A switch connects the hosts. Only root may make such
// hosts.
#pragma once

#include <string>

namespace lsched::testing {

class network_hosts {
 public:
  /// Makes hosts with the addresses 10.9.0.1, 10.9.0.2, … on their interfaces eth0.
  explicit network_hosts(int hosts);
  ~network_hosts();
  network_hosts(const network_hosts&) = delete;
  network_hosts& operator=(const network_hosts&) = delete;

  /// Returns false if this process may not make hosts, or if the system lacks the command `ip`.
  bool exist() const { return exist_; }

  /// Returns the name of a host's network namespace.
  std::string name_of(int host) const { return prefix_ + std::to_string(host); }
  /// Moves the calling thread to a host. Threads and processes that this thread starts later run on the same host.
  /// Returns false on an error.
  bool enter(int host) const;
  /// Adds a second interface, which has the same address on each host, like the interfaces of container networks.
  void add_equal_interface(int host) const;
  /// cut() takes the link of a host down, as if the host had lost its power. heal() takes the link up again.
  void cut(int host) const;
  void heal(int host) const;
  /// Drops all frames to a host, but no frames from the host.
  void drop_frames_to(int host) const;
  /// Makes both hosts drop all packets from each other, until allow() is called.
  void block(int host, int other) const { set_rules("add", host, other); }
  void allow(int host, int other) const { set_rules("delete", host, other); }

 private:
  void set_rules(const std::string& what, int host, int other) const;
  std::string switch_name() const { return prefix_ + "switch"; }

  const int hosts_;
  const std::string prefix_;
  bool exist_ = false;
};

}  // namespace lsched::testing
