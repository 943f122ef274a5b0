// A host of `lsched run --hosts`, and the connection to its agent.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bindings/cli/hosts/frame_stream.h"
#include "bindings/cli/hosts/host_list.h"

namespace lsched::cli {

/// The words of the remote shell, from LSCHED_RSH (default: k_remote_shell of environment_names.h).
std::vector<std::string> remote_shell();

/// Returns the path of this program. The remote shell executes the program at the same path of each host.
std::string path_of_this_program();

class remote_host {
 public:
  using clock = std::chrono::steady_clock;

  explicit remote_host(host place) : place_(std::move(place)) {}

  /// Starts the agent through the remote shell, or directly if the host is this host. `shell` has the path of the
  /// shell's program, followed by its arguments. Throws command_failure if no process can be started.
  void start(const std::vector<std::string>& shell);

  const host& place() const { return place_; }
  frame_stream& stream() { return *stream_; }
  /// Returns true while the connection is open.
  bool is_open() const { return stream_ != nullptr; }
  bool has_greeted() const { return !system_name_.empty(); }
  const std::string& system_name() const { return system_name_; }  ///< name that the host has for itself
  std::uint16_t free_port() const { return free_port_; }
  /// Returns the address at which sshd has accepted the connection, or "" if no sshd has reported an address that other
  /// hosts can use.
  const std::string& address() const { return address_; }
  /// Returns the address of this process's host from which sshd has accepted the connection, or "" if no sshd has
  /// reported such an address.
  const std::string& command_address() const { return command_address_; }

  /// Reads the lines that the agent and the login scripts of the host have printed. Returns an error text if the agent
  /// has another version, else an empty string.
  std::string read_greeting();

  /// Restarts the time limit of is_silent(). Must be called if the agent has sent bytes, and if this process was
  /// stopped.
  void restart_silence(clock::time_point now) { heard_at_ = now; }
  /// Returns true if the agent has sent its greeting, and then nothing for k_longest_silence.
  bool is_silent(clock::time_point now) const { return has_greeted() && now - heard_at_ > k_longest_silence; }

  /// Closes the connection. The agent then ends, and so does the remote shell.
  void close() { stream_.reset(); }
  /// Waits for the end of the remote shell, and kills the shell after the limit. Returns a text such as "`ssh b` has
  /// ended with status 255". SIGCHLD must be blocked.
  std::string wait_for_shell(std::chrono::nanoseconds limit = std::chrono::seconds(3));
  /// Returns true if the remote shell has ended with status 255, by which ssh reports its own errors. The status is
  /// known after wait_for_shell().
  bool has_shell_failed() const { return has_shell_failed_; }

 private:
  host place_;
  std::string command_;  ///< command that was started, for error texts
  pid_t process_ = 0;
  bool has_shell_failed_ = false;
  std::unique_ptr<frame_stream> stream_;
  std::string system_name_;
  std::uint16_t free_port_ = 0;
  std::string address_, command_address_;
  clock::time_point heard_at_{};  ///< time of the last restart_silence()
};

}  // namespace lsched::cli
