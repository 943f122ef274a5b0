#include "offload/open/timed_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace lsched {

/// Calls `some(done)` until all bytes are transferred. `some` returns the result of a system call.
template <class Transfer>
std::optional<failure> timed_socket::transfer(std::size_t bytes, short events, clock::time_point deadline,
                                              Transfer&& some) const {
  using namespace std::chrono_literals;
  for (std::size_t done = 0; done < bytes;) {
    std::array<pollfd, 2> waits{{{number_, events, 0}, {stop_, POLLIN, 0}}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now());
    if (left <= 0ms) return late_;
    constexpr std::chrono::milliseconds k_longest = 1h;
    if (poll(waits.data(), waits.size(), static_cast<int>(std::min(left, k_longest).count())) <= 0) continue;
    if (waits[1].revents != 0) return failure{status::cancelled, "the wait was ended by this process"};
    const ssize_t count = some(done);
    if (count > 0) done += static_cast<std::size_t>(count);
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) return ended_;
  }
  return std::nullopt;
}

std::optional<failure> timed_socket::send(const void* from, std::size_t bytes, clock::time_point deadline) const {
  return transfer(bytes, POLLOUT, deadline, [&](std::size_t done) {
    return ::send(number_, static_cast<const char*>(from) + done, bytes - done, MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

std::optional<failure> timed_socket::receive(void* into, std::size_t bytes, clock::time_point deadline) const {
  return transfer(bytes, POLLIN, deadline, [&](std::size_t done) {
    return ::recv(number_, static_cast<char*>(into) + done, bytes - done, MSG_DONTWAIT);
  });
}

}  // namespace lsched
