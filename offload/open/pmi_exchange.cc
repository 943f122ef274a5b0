#include "offload/open/pmi_exchange.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "libsched/transport/shm/ancestors.h"
#include "offload/open/adoption.h"
#include "offload/open/node_world.h"
#include "offload/open/rendezvous.h"
#include "ops/number_text.h"

namespace lsched {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr std::size_t k_longest_line = 4096;

failure refused(const std::string& why) {
  return {status::transport, "PMI: " + why +
                                 ": open the world with lsched_world_open_mpi, or start the program with "
                                 "`lsched run`"};
}

std::string hex_of(const void* bytes, std::size_t count) {
  constexpr char k_digits[] = "0123456789abcdef";
  const auto* const from = static_cast<const unsigned char*>(bytes);
  std::string text;
  for (std::size_t i = 0; i < count; ++i) (text += k_digits[from[i] >> 4]) += k_digits[from[i] & 15];
  return text;
}

/// Decodes a hexadecimal text of `count` bytes. Returns false if the text has another length or other characters.
bool read_hex(std::string_view text, void* bytes, std::size_t count) {
  const auto value = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 256; };
  auto* const into = static_cast<unsigned char*>(bytes);
  if (text.size() != 2 * count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const int byte = 16 * value(text[2 * i]) + value(text[2 * i + 1]);
    if (byte > 255) return false;
    into[i] = static_cast<unsigned char>(byte);
  }
  return true;
}

/// A client of the process manager.
class pmi_client {
 public:
  pmi_client(const launch& where, const segment_options& how)
      : where_(where), limit_(how.start_timeout), later_limit_(how.later_timeout()) {}

  std::optional<failure> initialize() {
    if (auto why = ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")) return why;
    if (auto why = ask("cmd=get_maxes", "maxes")) return why;
    const auto longest = parse_number<std::uint64_t>(value_of("vallen_max"));
    if (!longest || *longest <= 2 * k_exchanged_bytes)
      return refused("the process manager accepts values of at most \"" + value_of("vallen_max") +
                     "\" characters, which are too few: start the job by another launcher, such as lsched run");
    if (auto why = ask("cmd=get_my_kvsname", "my_kvsname")) return why;
    space_ = value_of("kvsname");
    return std::nullopt;
  }

  std::optional<failure> exchange(const void* mine, void* all, std::uint64_t bytes) {
    const std::string round = std::to_string(number_++);
    if (auto why =
            ask("cmd=put kvsname=" + space_ + " key=" + key(round, where_.self) + " value=" + hex_of(mine, bytes),
                "put_result"))
      return why;
    if (auto why = ask("cmd=barrier_in", "barrier_out")) return why;
    for (rank r = 0; r < where_.size; ++r) {
      if (auto why = ask("cmd=get kvsname=" + space_ + " key=" + key(round, r), "get_result")) return why;
      if (!read_hex(value_of("value"), static_cast<char*>(all) + static_cast<std::uint64_t>(r) * bytes, bytes))
        return refused("the record of rank " + std::to_string(r) +
                       " does not have the expected form: install the same libsched for all ranks");
    }
    limit_ = later_limit_;
    return std::nullopt;
  }

  /// Ends the connection. A failure has no effect on the world.
  void finalize() { (void)ask("cmd=finalize", "finalize_ack"); }

 private:
  static std::string key(const std::string& round, rank of) { return "lsched-" + round + "-" + std::to_string(of); }

  /// Sends a request, and waits for its answer, which must be `expected`. Fails if the answer reports an error.
  std::optional<failure> ask(const std::string& request, std::string_view expected) {
    const std::string line = request + "\n";
    const auto deadline = clock::now() + limit_;
    for (std::size_t done = 0; done < line.size();) {
      if (auto why = wait_for(POLLOUT, deadline)) return why;
      const ssize_t put = send(where_.descriptor, line.data() + done, line.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (put < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (put <= 0) return refused("cannot write to PMI_FD: " + std::string(std::strerror(errno)));
      done += static_cast<std::size_t>(put);
    }
    if (auto why = read_line(deadline)) return why;
    const std::string code = value_of("rc");
    if (value_of("cmd") == expected && (code.empty() || code == "0")) return std::nullopt;
    return refused("the process manager has answered \"" + answer_.substr(0, 100) + "\" to \"" +
                   request.substr(0, request.find(' ')) +
                   "\", which is an error: start the job by another launcher, such as lsched run");
  }

  /// Waits until the connection is ready for an event. Returns TIMEOUT after `deadline`.
  std::optional<failure> wait_for(short event, clock::time_point deadline) const {
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now());
      if (left <= 0ms)
        return failure{status::timeout, "not all " + std::to_string(where_.size) +
                                            " ranks opened their world in time: check that all ranks call "
                                            "lsched_world_open"};
      constexpr std::chrono::milliseconds k_longest = 1h;
      pollfd wait{where_.descriptor, event, 0};
      if (poll(&wait, 1, static_cast<int>(std::min(left, k_longest).count())) > 0) return std::nullopt;
    }
  }

  /// Reads a line into answer_.
  std::optional<failure> read_line(clock::time_point deadline) {
    while (unread_.size() < k_longest_line) {
      if (const auto end = unread_.find('\n'); end != std::string::npos) {
        answer_ = unread_.substr(0, end);
        unread_.erase(0, end + 1);
        return std::nullopt;
      }
      if (auto why = wait_for(POLLIN, deadline)) return why;
      std::array<char, 1024> piece{};
      const ssize_t got = recv(where_.descriptor, piece.data(), piece.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0)
        return refused("the process manager has closed the connection: look for errors in the output of the launcher");
      unread_.append(piece.data(), static_cast<std::size_t>(got));
    }
    return refused("the answer of the process manager is too long");
  }

  /// Returns the value of a field of answer_, or an empty text.
  std::string value_of(const std::string& field) const {
    const std::string fields = " " + answer_ + " ";
    const std::size_t found = fields.find(" " + field + "=");
    if (found == std::string::npos) return "";
    const std::size_t begin = found + field.size() + 2;
    return fields.substr(begin, fields.find(' ', begin) - begin);
  }

  const launch where_;
  std::chrono::nanoseconds limit_;  ///< time for the answer to a request
  const std::chrono::nanoseconds later_limit_;
  std::string space_, answer_, unread_;
  int number_ = 0;  ///< number of exchanges
};

/// Makes this process the rank of PMI_FD. Programs that this process executes do not inherit the descriptor.
std::optional<failure> claim(const launch& where) {
  const std::int32_t manager = creator_of(where.descriptor);
  if (const std::int32_t starter = manager != 0 ? find_user_above(manager) : 0; starter != 0)
    return not_a_rank(where, starter);
  // The owner of PMI_FD is the process that has become the rank. A forked process shares the descriptor, so the
  // descriptor has the same owner there.
  if (const int owner = fcntl(where.descriptor, F_GETOWN); owner > 0) {
    if (is_above(owner)) return not_a_rank(where, owner);
    return failure{status::state,
                   "rank " + std::to_string(where.self) + " has already joined the world" +
                       (owner == getpid() ? ", but can join only once" : ", as process " + std::to_string(owner)),
                   where.self};
  }
  if (fcntl(where.descriptor, F_SETOWN, getpid()) == 0 && fcntl(where.descriptor, F_SETFD, FD_CLOEXEC) == 0)
    return std::nullopt;
  return refused("PMI_FD=" + std::to_string(where.descriptor) + ": " + std::strerror(errno));
}

}  // namespace

result<opened_rank> open_over_pmi(const launch& where, std::string_view build, const segment_options& how) {
  if (const auto why = claim(where)) return *why;
  pmi_client client(where, how);
  if (const auto why = client.initialize()) return *why;
  const auto exchange = [&](const void* mine, void* all, std::uint64_t bytes) {
    return client.exchange(mine, all, bytes);
  };
  auto made = open_by_rendezvous({where.self, where.size}, build, exchange, how);
  if (made) client.finalize();
  return made;
}

}  // namespace lsched
