#include "offload/open/adoption.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "libsched/transport/shm/ancestors.h"

namespace lsched {
namespace {

/// Returns the failure for a process whose descriptor from the launcher is closed or refers to another file.
failure lacks_segment(const launch& where) {
  if (const std::int32_t starter = find_user_above(0); starter != 0) return not_a_rank(where, starter);
  return {status::transport, std::string(k_run_descriptor) + "=" + std::to_string(where.descriptor) +
                                 " is not the descriptor from `lsched run`: a program between `lsched run` and rank " +
                                 std::to_string(where.self) +
                                 " has closed that descriptor. Let this program keep inherited descriptors open"};
}

/// Makes the kernel kill this process when the launcher ends, even if the launcher is not the parent of this process.
/// The launcher has set the signal of its descriptor to SIGKILL (F_SETSIG). This function recognizes the descriptor by
/// that signal, and makes this process the receiver of the signal (F_SETOWN).
std::optional<failure> end_with_launcher(int descriptor) {
  if (fcntl(descriptor, F_GETSIG) != SIGKILL)
    return failure{status::argument, std::string(k_run_launcher) +
                                         " is not the descriptor from `lsched run`: start the program with `lsched "
                                         "run`, or unset LSCHED_RUN_ variables"};
  if (fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0 || fcntl(descriptor, F_SETOWN, getpid()) != 0)
    return failure{status::transport, std::string(k_run_launcher) + ": " + std::strerror(errno)};
  pollfd launcher{descriptor, 0, 0};
  if (poll(&launcher, 1, 0) > 0)  // the launcher ended before F_SETOWN
    return failure{status::transport, "`lsched run`, which started this process, has ended: start the program again"};
  return std::nullopt;
}

/// Returns the error of a system call for the launcher's descriptor, with the reason in errno.
failure unusable_descriptor() {
  return {status::transport, "the descriptor of the launcher (" + std::string(k_run_descriptor) +
                                 ") cannot be used: " + std::strerror(errno) +
                                 ". Start the program again with `lsched run`"};
}

}  // namespace

failure not_a_rank(const launch& where, std::int32_t starter) {
  return {status::state, "This process was started by rank " + std::to_string(where.self) + " (process " +
                             std::to_string(starter) +
                             ") and is not a rank; set LSCHED_WORLD=alone to open a world of its own"};
}

std::int32_t creator_of(int socket) {
  ucred creator{};
  socklen_t bytes = sizeof creator;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &creator, &bytes) == 0 ? creator.pid : 0;
}

std::optional<failure> adopt_exchange(const launch& where) {
  if (!where.launcher)
    return failure{status::argument, std::string(k_run_launcher) +
                                         " is not set, although other variables of `lsched run` are: start the "
                                         "program with `lsched run`"};
  if (const std::int32_t starter = find_user_above(creator_of(where.descriptor)); starter != 0)
    return not_a_rank(where, starter);
  // The owner of the launcher's pipe is the process that has become this rank, see end_with_launcher().
  if (const int owner = fcntl(*where.launcher, F_GETOWN); owner > 0) {
    if (is_above(owner)) return not_a_rank(where, owner);
    return failure{status::state, "rank " + std::to_string(where.self) + " has already joined the world, as process " +
                                      std::to_string(owner)};
  }
  if (fcntl(where.descriptor, F_SETFD, FD_CLOEXEC) != 0)
    return unusable_descriptor();
  return end_with_launcher(*where.launcher);
}

result<std::shared_ptr<shm_segment>> adopt_segment(const launch& where) {
  const int copy = fcntl(where.descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const bool is_refused = copy < 0 && errno != EBADF;
  if (is_refused || (shm_segment::is_segment(copy) && fcntl(where.descriptor, F_SETFD, FD_CLOEXEC) != 0))
    return unusable_descriptor();
  if (!shm_segment::is_segment(copy)) {
    if (copy >= 0) ::close(copy);
    return lacks_segment(where);
  }
  auto segment = shm_segment::adopt(copy);
  if (!segment) return segment;
  if (const std::int32_t starter = find_user_above((*segment)->creator().number); starter != 0)
    return not_a_rank(where, starter);
  if (where.size != (*segment)->ranks())
    return failure{status::argument, "LSCHED_RUN_SIZE is " + std::to_string(where.size) +
                                         ", but `lsched run` started " + std::to_string((*segment)->ranks()) +
                                         " ranks: do not change this variable"};
  return segment;
}

result<std::unique_ptr<shm_endpoint>> take_place(const std::shared_ptr<shm_segment>& segment, const launch& where,
                                                 const shm_options& options) {
  auto net = shm_endpoint::open(segment, where.self, options);
  if (!net && net.error().code == status::state)
    if (const std::int32_t holder = segment->page(where.self).process.load().number; is_above(holder))
      return not_a_rank(where, holder);
  if (net && where.launcher)  // from now on, no other process can become this rank
    if (const auto why = end_with_launcher(*where.launcher)) return *why;
  return net;
}

}  // namespace lsched
