#include "offload/open/launch_exchange.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace lsched {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto k_travel_time = 10s;  ///< time for an answer to reach this rank, in addition to the limit

failure ended() {
  return {status::transport, "`lsched run`, which started this process, has ended: start the program again"};
}

/// Sends or receives all bytes. Returns TIMEOUT after `deadline`.
template <class Transfer>
std::optional<failure> transfer(int socket, std::size_t bytes, short events, clock::time_point deadline,
                                Transfer&& some) {
  for (std::size_t done = 0; done < bytes;) {
    pollfd wait{socket, events, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now());
    if (left <= 0ms)
      return failure{status::timeout, "`lsched run` has not answered in time: check that it is not stopped"};
    constexpr std::chrono::milliseconds k_longest = 1h;
    if (poll(&wait, 1, static_cast<int>(std::min(left, k_longest).count())) <= 0) continue;
    const ssize_t count = some(done);
    if (count > 0) done += static_cast<std::size_t>(count);
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) return ended();
  }
  return std::nullopt;
}

std::optional<failure> send_all(int socket, const void* from, std::size_t bytes, clock::time_point deadline) {
  return transfer(socket, bytes, POLLOUT, deadline, [&](std::size_t done) {
    return send(socket, static_cast<const char*>(from) + done, bytes - done, MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

std::optional<failure> receive_all(int socket, void* into, std::size_t bytes, clock::time_point deadline) {
  return transfer(socket, bytes, POLLIN, deadline, [&](std::size_t done) {
    return recv(socket, static_cast<char*>(into) + done, bytes - done, MSG_DONTWAIT);
  });
}

}  // namespace

bool has_exchange(const launch& where) {
  struct stat kind {};
  return fstat(where.descriptor, &kind) == 0 && S_ISSOCK(kind.st_mode);
}

exchange_function exchange_with_launcher(const launch& where, std::chrono::nanoseconds first,
                                         std::chrono::nanoseconds later) {
  return [=, limit = first](const void* mine, void* all, std::uint64_t bytes) mutable -> std::optional<failure> {
    exchange_request request{};
    constexpr std::chrono::milliseconds k_longest(std::numeric_limits<std::int32_t>::max());
    const auto whole = std::min(std::chrono::ceil<std::chrono::milliseconds>(std::exchange(limit, later)), k_longest);
    request.limit_ms = static_cast<std::uint32_t>(whole.count());
    std::memcpy(&request.record, mine, bytes);
    const auto deadline = clock::now() + whole + k_travel_time;
    if (auto why = send_all(where.descriptor, &request, sizeof request, deadline)) return why;
    exchange_answer answer{};
    if (auto why = receive_all(where.descriptor, &answer, sizeof answer, deadline)) return why;
    if (answer.code != 0) {
      std::string text(std::min<std::size_t>(answer.bytes, k_exchanged_bytes), '\0');
      if (auto why = receive_all(where.descriptor, text.data(), text.size(), deadline)) return why;
      return failure{static_cast<status>(answer.code), text, answer.culprit};
    }
    if (answer.bytes != bytes * static_cast<std::uint64_t>(where.size))
      return failure{status::argument, "`lsched run` has answered for another number of ranks than LSCHED_RUN_SIZE=" +
                                           std::to_string(where.size) + ": do not change this variable"};
    return receive_all(where.descriptor, all, answer.bytes, deadline);
  };
}

}  // namespace lsched
