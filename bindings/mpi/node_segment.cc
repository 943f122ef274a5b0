#include "bindings/mpi/node_segment.h"

#include <errno.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/mpi/mpi_calls.h"

namespace lsched {
namespace {

using clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto k_patience = 10s;       // for the whole exchange
constexpr auto k_guest_patience = 1s;  // for one connection to say who it is

/// A file descriptor with an owner.
class descriptor {
 public:
  explicit descriptor(int number = -1) : number_(number) {}
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }
  int give() { return std::exchange(number_, -1); }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

/// Where the first rank listens, and how both sides know that they mean each other: names of abstract sockets
/// are per network name space, so an equal name alone may lead to a stranger.
struct invitation {
  std::int32_t process = 0;
  std::int32_t name_bytes = 0;  ///< 0: there is nothing to come to
  std::uint64_t secret = 0;
  char name[sizeof(sockaddr_un::sun_path)] = {};
};

struct greeting {
  std::uint64_t secret = 0;
  std::int32_t member = 0;
  std::int32_t process = 0;
};

failure system_failure(const char* what) {
  return {status::transport, std::string(what) + ": " + std::strerror(errno)};
}

bool wait_readable(int socket, clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now());
    pollfd it{socket, POLLIN, 0};
    const int found = ::poll(&it, 1, static_cast<int>(std::max(left.count(), std::chrono::milliseconds::rep{0})));
    if (found > 0) return true;
    if (found == 0 || errno != EINTR) return false;
  }
}

/// The process at the other end, if it belongs to the same user and is numbered here as it numbers itself:
/// shared memory watches peers by these numbers.
std::optional<failure> validate(int socket, std::int32_t process) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return system_failure("SO_PEERCRED");
  if (peer.uid != geteuid()) return failure{status::transport, "another user answers"};
  if (peer.pid != process) return failure{status::transport, "the processes live in different process name spaces"};
  return std::nullopt;
}

// --- the first rank ----------------------------------------------------------------------------------------

struct host {
  std::shared_ptr<shm_segment> segment;
  descriptor socket;
  invitation open;
};

result<host> make_host(rank size, std::uint64_t region_bytes) {
  host made;
  auto segment = shm_segment::create(size, region_bytes);
  if (!segment) return segment.error();
  made.segment = std::move(*segment);
  made.socket = descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  socklen_t bytes = sizeof(sa_family_t);  // only the family: the kernel picks an abstract name
  if (!made.socket.is_open() || bind(made.socket.number(), reinterpret_cast<sockaddr*>(&name), bytes) != 0 ||
      listen(made.socket.number(), std::max(size, 16)) != 0)
    return system_failure("a local socket");
  bytes = sizeof name;
  if (getsockname(made.socket.number(), reinterpret_cast<sockaddr*>(&name), &bytes) != 0)
    return system_failure("the local socket's name");
  made.open.process = static_cast<std::int32_t>(getpid());
  made.open.name_bytes = static_cast<std::int32_t>(bytes - sizeof(sa_family_t));
  std::memcpy(made.open.name, name.sun_path, static_cast<std::size_t>(made.open.name_bytes));
  if (getrandom(&made.open.secret, sizeof made.open.secret, 0) != static_cast<ssize_t>(sizeof made.open.secret))
    return system_failure("getrandom");
  return made;
}

bool send_descriptor(int socket, const greeting& words, int passed) {
  greeting copy = words;
  iovec content{&copy, sizeof copy};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> room{};
  msghdr letter{};
  letter.msg_iov = &content;
  letter.msg_iovlen = 1;
  letter.msg_control = room.data();
  letter.msg_controllen = room.size();
  cmsghdr* const rights = CMSG_FIRSTHDR(&letter);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof passed);
  std::memcpy(CMSG_DATA(rights), &passed, sizeof passed);
  return sendmsg(socket, &letter, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof copy);
}

/// Serves one connection. Strangers are turned away without a word.
std::optional<failure> serve_guest(const host& at, int guest, std::vector<bool>& served) {
  greeting words;
  if (!wait_readable(guest, clock::now() + k_guest_patience) ||
      recv(guest, &words, sizeof words, 0) != static_cast<ssize_t>(sizeof words) || words.secret != at.open.secret ||
      words.member <= 0 || static_cast<std::size_t>(words.member) >= served.size())
    return std::nullopt;
  if (auto why = validate(guest, words.process)) return why;
  if (!send_descriptor(guest, {at.open.secret, 0, at.open.process}, at.segment->descriptor()))
    return system_failure("passing the segment");
  served[static_cast<std::size_t>(words.member)] = true;
  return std::nullopt;
}

std::optional<failure> serve_guests(const host& at, rank size) {
  const clock::time_point deadline = clock::now() + k_patience;
  std::vector<bool> served(static_cast<std::size_t>(size));
  served[0] = true;
  while (std::ranges::find(served, false) != served.end()) {
    if (!wait_readable(at.socket.number(), deadline))
      return failure{status::timeout, "a process of the node did not come for the segment in time"};
    const descriptor guest(accept4(at.socket.number(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!guest.is_open() && errno != EINTR && errno != ECONNABORTED) return system_failure("accept");
    if (!guest.is_open()) continue;
    if (auto why = serve_guest(at, guest.number(), served)) return why;
  }
  return std::nullopt;
}

// --- the others --------------------------------------------------------------------------------------------

/// -1: no descriptor came.
int receive_descriptor(int socket, greeting& words) {
  iovec content{&words, sizeof words};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> room{};
  msghdr letter{};
  letter.msg_iov = &content;
  letter.msg_iovlen = 1;
  letter.msg_control = room.data();
  letter.msg_controllen = room.size();
  if (recvmsg(socket, &letter, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(sizeof words)) return -1;
  const cmsghdr* const rights = CMSG_FIRSTHDR(&letter);
  if (rights == nullptr || rights->cmsg_type != SCM_RIGHTS || rights->cmsg_len != CMSG_LEN(sizeof(int))) return -1;
  int passed = -1;
  std::memcpy(&passed, CMSG_DATA(rights), sizeof passed);
  return passed;
}

result<std::shared_ptr<shm_segment>> visit(const invitation& to, rank member, rank size) {
  const descriptor door(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!door.is_open()) return system_failure("a local socket");
  const timeval limit{std::chrono::seconds(k_patience).count(), 0};
  if (setsockopt(door.number(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0)
    return system_failure("SO_SNDTIMEO");
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, to.name, static_cast<std::size_t>(to.name_bytes));
  const auto bytes = static_cast<socklen_t>(sizeof(sa_family_t) + static_cast<std::size_t>(to.name_bytes));
  if (connect(door.number(), reinterpret_cast<const sockaddr*>(&name), bytes) != 0)
    return system_failure("connecting to the node's first rank");
  if (auto why = validate(door.number(), to.process)) return *why;

  const greeting mine{to.secret, member, static_cast<std::int32_t>(getpid())};
  if (::send(door.number(), &mine, sizeof mine, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof mine))
    return system_failure("greeting the node's first rank");
  greeting theirs;
  if (!wait_readable(door.number(), clock::now() + k_patience))
    return failure{status::timeout, "the node's first rank did not answer in time"};
  const int passed = receive_descriptor(door.number(), theirs);
  if (passed < 0) return failure{status::transport, "the node's first rank passed no segment"};
  descriptor received(passed);
  if (theirs.secret != to.secret) return failure{status::transport, "a stranger answered for the node's first rank"};
  auto segment = shm_segment::adopt(received.give());
  if (segment && (*segment)->ranks() != size)
    return failure{status::transport, "the segment was made for another number of ranks"};
  return segment;
}

// --- together ----------------------------------------------------------------------------------------------

bool is_seen_by_all(const shm_segment& segment) {
  for (rank r = 0; r < segment.ranks(); ++r)
    if (segment.page(r).state_of_rank.load() != shm_page::open) return false;
  return true;
}

failure mpi_failure(const char* what) { return {status::transport, std::string(what) + " failed"}; }

/// Makes one rank's failure everybody's; who merely waited for another that failed comes last. Nothing: all
/// are well. A barrier, too.
std::optional<failure> agree(MPI_Comm node, rank self, rank size, const std::optional<failure>& mine) {
  struct verdict {
    std::int32_t code;
    char text[252];
  };
  int failing = !mine ? 2 * size : mine->code == status::timeout ? size + self : self;
  int first = 2 * size;
  if (!combine_all(&failing, &first, 1, MPI_INT, MPI_MIN, node)) return mpi_failure("MPI_Iallreduce");
  if (first == 2 * size) return std::nullopt;
  first %= size;
  verdict said{};
  if (first == self) {
    said.code = static_cast<std::int32_t>(mine->code);
    mine->text.copy(said.text, sizeof said.text - 1);
  }
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Ibcast(&said, static_cast<int>(sizeof said), MPI_BYTE, first, node, &request) != MPI_SUCCESS ||
      await_request(request) != MPI_SUCCESS)
    return mpi_failure("MPI_Ibcast");
  return failure{static_cast<status>(said.code), said.text, first};
}

}  // namespace

result<std::unique_ptr<shm_endpoint>> share_segment(MPI_Comm node, std::uint64_t region_bytes,
                                                    const shm_options& options) {
  int self = 0;
  int size = 0;
  if (MPI_Comm_rank(node, &self) != MPI_SUCCESS || MPI_Comm_size(node, &size) != MPI_SUCCESS)
    return mpi_failure("MPI_Comm_rank");

  host at;
  std::optional<failure> mine;
  if (self == 0) {
    auto made = make_host(size, region_bytes);
    if (made)
      at = std::move(*made);
    else
      mine = made.error();
  }
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Ibcast(&at.open, static_cast<int>(sizeof at.open), MPI_BYTE, 0, node, &request) != MPI_SUCCESS ||
      await_request(request) != MPI_SUCCESS)
    return mpi_failure("MPI_Ibcast");

  std::unique_ptr<shm_endpoint> seat;
  if (at.open.name_bytes > 0 && self == 0) {
    mine = serve_guests(at, size);
  } else if (at.open.name_bytes > 0) {
    auto found = visit(at.open, self, size);
    if (found)
      at.segment = std::move(*found);
    else
      mine = found.error();
  }
  if (at.segment != nullptr && !mine) {
    auto opened = shm_endpoint::open(at.segment, self, options);
    if (opened)
      seat = std::move(*opened);
    else
      mine = opened.error();
  }
  if (auto why = agree(node, self, size, mine)) return *why;
  if (!is_seen_by_all(*at.segment)) mine = failure{status::transport, "a rank maps a segment of its own"};
  if (auto why = agree(node, self, size, mine)) return *why;
  return seat;
}

}  // namespace lsched
