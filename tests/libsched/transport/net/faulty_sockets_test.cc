// Tests of the transport net over faulty sockets. Socket calls move only a few bytes, fail, or reset the connection. A
// seed determines the faults. This file replaces the socket calls of the test program.
#include <dlfcn.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libsched/schedule/draw.h"
#include "libsched/transport/net/net_endpoint.h"
#include "tests/conformance/endpoint_exam.h"
#include "tests/libsched/transport/net/net_exam_world.h"
#include "tests/libsched/transport/net/net_sockets.h"
#include "tests/support/sampling.h"

namespace lsched {
namespace {

using testing::connect_all;
using testing::full;

/// The faults of the socket calls that the creating thread makes during the lifetime of this object.
class socket_faults {
 public:
  explicit socket_faults(std::uint64_t seed) : dice_(seed) { active = this; }
  ~socket_faults() { active = nullptr; }
  socket_faults(const socket_faults&) = delete;
  socket_faults& operator=(const socket_faults&) = delete;

  static thread_local socket_faults* active;

  /// Resets the connection of a socket as soon as `bytes` bytes were sent.
  void reset(int socket, std::size_t bytes) {
    doomed_ = socket;
    left_ = bytes;
  }
  bool has_reset() const { return has_reset_; }

  /// Returns the largest number of bytes that the next call on a socket may move. If the call must fail, returns -1 and
  /// sets errno. Calls may fail several times in a row, so bytes on another socket may overtake the bytes of this
  /// socket.
  ssize_t room(int socket, bool sends) {
    if (sends && socket == doomed_ && left_ == 0) return cut(socket), -1;
    std::uint64_t& pause = pauses_[socket];
    if (draw(64) == 0) pause = draw(40);
    if (pause != 0) --pause;
    if (pause != 0 || draw(4) == 0) {
      errno = draw(8) == 0 ? EINTR : EAGAIN;
      return -1;
    }
    const auto most = static_cast<ssize_t>(1 + draw(full() || draw(4) == 0 ? k_few : k_many));
    return sends && socket == doomed_ ? std::min(most, static_cast<ssize_t>(left_)) : most;
  }
  void note(int socket, ssize_t sent) {
    if (socket == doomed_ && sent > 0) left_ -= static_cast<std::size_t>(sent);
  }

 private:
  // Except in full runs (sampling.h), most calls may move more bytes, because otherwise the tests would take minutes.
  static constexpr std::uint64_t k_few = 7, k_many = 8000;

  std::uint64_t draw(std::uint64_t below) { return (dice_ = mix(dice_ + 1)) % below; }

  /// Resets the connection of a socket by a connect without an address. The socket keeps its descriptor.
  void cut(int socket) {
    const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
    (void)::connect(socket, &nobody, sizeof nobody);
    has_reset_ = true;
    errno = ECONNRESET;
  }

  std::uint64_t dice_;
  std::unordered_map<int, std::uint64_t> pauses_;  ///< number of further calls on a socket that fail, by descriptor
  int doomed_ = -1;
  std::size_t left_ = 0;
  bool has_reset_ = false;
};
thread_local socket_faults* socket_faults::active = nullptr;

/// Returns the original of a function that this file replaces. The original belongs to the system or to a sanitizer.
template <class Function>
Function* replaced(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// A message that is cut after `most` bytes.
class shortened {
 public:
  shortened(const msghdr& of, std::size_t most) : header_(of) {
    const std::span all(of.msg_iov, of.msg_iovlen);
    for (header_.msg_iovlen = 0; header_.msg_iovlen < all.size() && most != 0; ++header_.msg_iovlen) {
      iovec& piece = pieces_[header_.msg_iovlen] = all[header_.msg_iovlen];
      piece.iov_len = std::min(piece.iov_len, most);
      most -= piece.iov_len;
    }
    header_.msg_iov = pieces_.data();
  }
  msghdr* header() { return &header_; }

 private:
  std::array<iovec, 8> pieces_{};
  msghdr header_;
};

}  // namespace
}  // namespace lsched

extern "C" ssize_t sendmsg(int socket, const msghdr* what, int flags) {
  static const auto original = lsched::replaced(&sendmsg, "sendmsg");
  auto* const faults = lsched::socket_faults::active;
  if (faults == nullptr) return original(socket, what, flags);
  const ssize_t room = faults->room(socket, true);
  if (room < 0) return -1;
  lsched::shortened some(*what, static_cast<std::size_t>(room));
  const ssize_t moved = original(socket, some.header(), flags);
  faults->note(socket, moved);
  return moved;
}

extern "C" ssize_t recvmsg(int socket, msghdr* what, int flags) {
  static const auto original = lsched::replaced(&recvmsg, "recvmsg");
  auto* const faults = lsched::socket_faults::active;
  if (faults == nullptr) return original(socket, what, flags);
  const ssize_t room = faults->room(socket, false);
  if (room < 0) return -1;
  lsched::shortened some(*what, static_cast<std::size_t>(room));
  return original(socket, some.header(), flags);
}

namespace lsched {
namespace {

class faulty_net_world final : public testing::net_exam_world {
 public:
  explicit faulty_net_world(std::uint64_t seed) : net_exam_world(AF_INET), faults_(seed) {}
  std::chrono::milliseconds patience() const override { return std::chrono::seconds(60); }

 private:
  socket_faults faults_;  // destroyed before the endpoints, which are members of the base class
};

/// Returns the questions of the exam that tolerate delayed bytes and partial writes.
std::vector<exam::question> patient_questions() {
  constexpr std::array<std::string_view, 4> k_impatient{
      "an_exchange_is_pending_while_a_record_is_missing", "listening_means_that_something_may_come",
      "members_meet_by_a_key", "a_message_rings_a_bell_that_somebody_sleeps_on"};
  std::vector<exam::question> all(std::begin(exam::k_questions), std::end(exam::k_questions));
  std::erase_if(all, [&](const exam::question& one) {
    return std::ranges::find(k_impatient, std::string_view(one.name)) != k_impatient.end();
  });
  return all;
}

class faulty_net_exam : public ::testing::TestWithParam<exam::question> {};

TEST_P(faulty_net_exam, passes) {
  const std::uint64_t last = full() ? 100 : 1;
  for (std::uint64_t seed = 1; seed <= last; ++seed) {
    faulty_net_world world(seed);
    EXPECT_EQ(exam::ask(GetParam(), world), "") << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(every, faulty_net_exam, ::testing::ValuesIn(patient_questions()), exam::name_of_question);

// --- resets ------------------------------------------------------------------------------------------------------

/// Two ranks that send each other a small and a large message. One of the connections is reset.
class small_exchange {
 public:
  small_exchange() {
    for (rank r = 0; r < 2; ++r) {
      const auto at = static_cast<std::size_t>(r);
      numbers_[at] = {sockets_[at][1 - at].control.get(), sockets_[at][1 - at].bulk.get()};
      ends_[at] = std::move(*net_endpoint::open({r, 2}, std::move(sockets_[at]), {.lost_after = k_at_once}));
      std::vector<edge_spec> edges;
      for (const bool outgoing : {true, false})
        for (std::uint32_t tag = 0; tag < 2; ++tag)
          edges.push_back({.outgoing = outgoing, .peer = 1 - r, .tag = tag, .capacity = k_bytes[tag], .cookie = tag});
      links_[at] = *ends_[at]->attach(5, std::vector<rank>{0, 1}, false, edges);
      for (std::size_t tag = 0; tag < 2; ++tag) targets_[at][tag].assign(k_bytes[tag], std::byte{0});
    }
    for (const auto& each : ends_) EXPECT_EQ(each->link(5, std::vector<member_address>(2, {.far = 5})), status::ok);
  }

  int socket(std::size_t at, std::size_t which) const { return numbers_[at][which]; }

  /// Returns a description of the first error, or an empty string.
  std::string run(socket_faults& faults) {
    for (std::size_t at = 0; at < 2; ++at)
      for (std::size_t tag = 0; tag < 2; ++tag) {
        if (ends_[at]->send(links_[at][tag], 1, {source_[tag].data(), k_bytes[tag]})) ++done_[at];
        arrival news;
        if (ends_[at]->receive(links_[at][2 + tag], 1, {targets_[at][tag].data(), k_bytes[tag]}, news)) take(at, tag);
      }
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    const auto is_over = [&](std::size_t at) {
      return faults.has_reset() ? ends_[at]->is_lost(static_cast<rank>(1 - at)) : done_[at] == 4;
    };
    while (!is_over(0) || !is_over(1)) {
      if (std::chrono::steady_clock::now() > limit) return "waited too long";
      for (std::size_t at = 0; at < 2; ++at) turn(at);
    }
    for (const auto& each : ends_)
      if (each->health() != status::ok) return "an endpoint has failed";
    if (!faults.has_reset() && (ends_[0]->is_lost(1) || ends_[1]->is_lost(0))) return "a rank is lost without a reason";
    return error_;
  }

 private:
  static constexpr std::array<std::uint64_t, 2> k_bytes{40, k_small_bytes + 1};
  static constexpr std::chrono::milliseconds k_at_once{1};

  void turn(std::size_t at) {
    std::array<completion, 8> news;
    for (std::size_t found = ends_[at]->poll(news), i = 0; i < found; ++i) {
      if (news[i].what.data == nullptr)
        ++done_[at];
      else
        take(at, news[i].cookie);
    }
    ends_[at]->flush();
    (void)ends_[at]->find_dead_peer();
  }
  void take(std::size_t at, std::size_t tag) {
    ++done_[at];
    if (targets_[at][tag] != source_[tag]) error_ = "rank " + std::to_string(at) + " has received wrong bytes";
  }

  std::vector<std::vector<net_sockets>> sockets_ = connect_all(2, AF_INET);
  std::array<std::array<int, 2>, 2> numbers_{};
  std::array<std::unique_ptr<net_endpoint>, 2> ends_;
  std::array<std::vector<link_id>, 2> links_;
  const std::array<std::vector<std::byte>, 2> source_{std::vector(k_bytes[0], std::byte{4}),
                                                      std::vector(k_bytes[1], std::byte{6})};
  std::array<std::array<std::vector<std::byte>, 2>, 2> targets_;
  std::array<int, 2> done_{};  ///< number of completed sends and receives of each rank
  std::string error_;
};

// Each run resets a connection after a certain byte. The runs cover each of the first 400 bytes, and every 301st of the
// later bytes. Both ranks must record the loss, and no message may be wrong.
TEST(faulty_net, records_a_loss_after_a_reset_at_any_byte) {
  for (std::size_t which = 0; which < 2; ++which)
    for (std::size_t at = 0; at < 2; ++at) {
      bool goes_on = true;
      for (std::size_t bytes = 0; goes_on; bytes += full() || bytes < 400 ? 1u : 301u) {
        small_exchange both;
        socket_faults faults(bytes);
        faults.reset(both.socket(at, which), bytes);
        ASSERT_EQ(both.run(faults), "") << "socket " << which << " of rank " << at << " after " << bytes << " bytes";
        goes_on = faults.has_reset();
      }
    }
}

}  // namespace
}  // namespace lsched
