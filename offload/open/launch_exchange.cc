#include "offload/open/launch_exchange.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace lsched {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto k_travel_time = 10s;  ///< time for an answer to reach this rank, in addition to the limit

}  // namespace

bool has_exchange(const launch& where) {
  struct stat kind {};
  return fstat(where.descriptor, &kind) == 0 && S_ISSOCK(kind.st_mode);
}

exchange_function exchange_over(const timed_socket& socket, rank size, const failure& other_size,
                                std::chrono::nanoseconds first, std::chrono::nanoseconds later) {
  return [=, limit = first](const void* mine, void* all, std::uint64_t bytes) mutable -> std::optional<failure> {
    exchange_request request{};
    constexpr std::chrono::milliseconds k_longest(std::numeric_limits<std::int32_t>::max());
    const auto whole = std::min(std::chrono::ceil<std::chrono::milliseconds>(std::exchange(limit, later)), k_longest);
    request.limit_ms = static_cast<std::uint32_t>(whole.count());
    std::memcpy(&request.record, mine, bytes);
    const auto deadline = clock::now() + whole + k_travel_time;
    if (auto why = socket.send(&request, sizeof request, deadline)) return why;
    exchange_answer answer{};
    if (auto why = socket.receive(&answer, sizeof answer, deadline)) return why;
    if (answer.code != 0) {
      std::string text(std::min<std::size_t>(answer.bytes, k_exchanged_bytes), '\0');
      if (auto why = socket.receive(text.data(), text.size(), deadline)) return why;
      return failure{static_cast<status>(answer.code), text, answer.culprit};
    }
    if (answer.bytes != bytes * static_cast<std::uint64_t>(size)) return other_size;
    return socket.receive(all, answer.bytes, deadline);
  };
}

exchange_function exchange_with_launcher(const launch& where, std::chrono::nanoseconds first,
                                         std::chrono::nanoseconds later) {
  const timed_socket socket(
      where.descriptor,
      {status::transport, "`lsched run`, which started this process, has ended: start the program again"},
      {status::timeout, "`lsched run` has not answered in time: check that it is not stopped"});
  const failure other_size{status::argument,
                           "`lsched run` has answered for another number of ranks than LSCHED_RUN_SIZE=" +
                               std::to_string(where.size) + ": do not change this variable"};
  return exchange_over(socket, where.size, other_size, first, later);
}

}  // namespace lsched
