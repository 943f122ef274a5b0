// The connection of the remote shell to the command, as the kernel of the agent's host sees it. The kernel of the other
// host confirms bytes also if the command is stopped. So a silent kernel means that the host or the network is gone.
#pragma once

#include <linux/inet_diag.h>

#include <chrono>
#include <optional>

namespace lsched::cli {

class shell_connection {
 public:
  /// Reads the addresses from SSH_CONNECTION. Other remote shells than ssh may set this variable, too. If the variable
  /// is not set, silence() always returns zero.
  shell_connection();

  /// Returns the time for which the other host has confirmed nothing, or zero if no bytes are unconfirmed.
  std::chrono::milliseconds silence() const;

 private:
  std::optional<inet_diag_req_v2> request_;
};

}  // namespace lsched::cli
