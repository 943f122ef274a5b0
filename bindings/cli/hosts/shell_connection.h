// Asks the kernel of the agent's host for the state of the connection between the remote shell and the command. The
// kernel of the command's host acknowledges bytes even if the command is stopped. So missing acknowledgements mean that
// the host or the network has failed.
#pragma once

#include <linux/inet_diag.h>

#include <chrono>
#include <optional>
#include <string>

namespace lsched::cli {

class shell_connection {
 public:
  /// Reads the addresses from SSH_CONNECTION. Other remote shells than ssh may set this variable, too. If the variable
  /// is not set, silence() always returns zero.
  shell_connection();

  /// Returns the addresses of the two ends, the end of the command first, or "" without sshd.
  const std::string& addresses() const { return addresses_; }

  /// Returns the time for which the other host has acknowledged nothing. Returns zero if no bytes are unacknowledged.
  std::chrono::milliseconds silence() const;

 private:
  std::string addresses_;  ///< both addresses, separated by a space
  std::optional<inet_diag_req_v2> request_;
};

}  // namespace lsched::cli
