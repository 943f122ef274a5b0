// Tests of encrypted connections. The tests check the bytes that arrive, the bytes that a third party sees, and the
// bytes that both ends refuse.
#include "libsched/transport/net/crypto/tls_session.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "libsched/transport/net/descriptor.h"

namespace lsched {
namespace {

using clock = std::chrono::steady_clock;

constexpr auto k_patience = std::chrono::seconds(60);

hash_bytes key_of(unsigned value) {
  hash_bytes made;
  made.fill(static_cast<std::byte>(value));
  return made;
}

/// An attacker between the two ends. The attacker records all bytes from end 0, and may change one of these bytes.
class relay {
 public:
  relay() {
    for (auto& side : sides_) {
      int both[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both) != 0) std::abort();
      side.outer = descriptor(both[0]);
      side.inner = descriptor(both[1]);
      const int small = 4096;
      (void)setsockopt(both[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    }
  }

  int end(std::size_t which) const { return sides_[which].outer.get(); }

  /// Passes on the bytes that both ends have written.
  void pass_on() {
    move(sides_[0], sides_[1]);
    move(sides_[1], sides_[0]);
  }

  std::vector<std::byte> seen{};                       ///< all bytes from end 0
  std::size_t changed = static_cast<std::size_t>(-1);  ///< index of the byte from end 0 that is changed

 private:
  struct side {
    descriptor outer, inner;
    std::vector<std::byte> waiting;  ///< bytes to be read by this end
  };

  void move(side& from, side& to) {
    std::byte some[8192];
    const ssize_t now = to.waiting.size() > 65536 ? -1 : recv(from.inner.get(), some, sizeof some, 0);
    for (ssize_t i = 0; i < now; ++i) {
      if (&from == &sides_[0]) {
        if (seen.size() == changed) some[i] ^= std::byte{1};
        seen.push_back(some[i]);
      }
      to.waiting.push_back(some[i]);
    }
    const ssize_t sent = send(to.inner.get(), to.waiting.data(), to.waiting.size(), MSG_NOSIGNAL);
    if (sent > 0) to.waiting.erase(to.waiting.begin(), to.waiting.begin() + sent);
  }

  side sides_[2];
};

/// One end of a connection, which sends a text and collects the bytes that arrive.
struct talker {
  talker(int socket, bool is_client, unsigned key, std::vector<std::byte> text, std::uint64_t bytes_per_key)
      : to_send(std::move(text)) {
    auto made = tls_session::begin(**tls_library::load(), socket, is_client, key_of(key), bytes_per_key);
    if (!made) std::abort();
    session = std::move(*made);
  }

  void advance(std::mt19937& draw) {
    if (sent < to_send.size() && error == 0) note(session->write(to_send.data() + sent, to_send.size() - sent), sent);
    std::vector<std::byte> some(1 + draw() % 30000);
    std::size_t taken = 0;
    if (error == 0) note(session->read(some.data(), some.size()), taken);
    received.insert(received.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(taken));
  }

  void note(ssize_t answer, std::size_t& count) {
    if (answer > 0) count += static_cast<std::size_t>(answer);
    if (answer < 0 && errno != EAGAIN) error = errno;
  }

  std::unique_ptr<tls_session> session;
  std::vector<std::byte> to_send;
  std::size_t sent = 0;
  std::vector<std::byte> received;
  int error = 0;
};

std::vector<std::byte> random_text(std::size_t bytes, std::mt19937& draw) {
  std::vector<std::byte> made(bytes);
  std::ranges::generate(made, [&] { return static_cast<std::byte>(draw()); });
  return made;
}

class tls_session_test : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!tls_library::load()) GTEST_SKIP() << "the system has no OpenSSL 3";
  }

  /// Exchanges bytes until both ends have all bytes, or until `errors` (1 or 2) of the ends have failed.
  void talk(talker& one, talker& other, int errors = 1) {
    const auto deadline = clock::now() + k_patience;
    const auto is_complete = [&] {
      return one.received.size() == other.to_send.size() && other.received.size() == one.to_send.size();
    };
    while (!is_complete() && (one.error != 0) + (other.error != 0) < errors && clock::now() < deadline) {
      one.advance(draw);
      between.pass_on();
      other.advance(draw);
      between.pass_on();
    }
  }

  std::mt19937 draw{20261129};
  relay between;
};

TEST_F(tls_session_test, delivers_all_bytes_in_both_directions) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{16384}, std::size_t{16385}, std::size_t{700'001}}) {
    relay fresh;
    std::swap(between, fresh);
    talker one(between.end(0), true, 1, random_text(bytes, draw), tls_session::k_bytes_per_key);
    talker other(between.end(1), false, 1, random_text(bytes / 3, draw), tls_session::k_bytes_per_key);
    talk(one, other);
    EXPECT_EQ(one.error + other.error, 0);
    EXPECT_TRUE(other.received == one.to_send) << bytes;
    EXPECT_TRUE(one.received == other.to_send) << bytes;
  }
}

// A key update is a separate record, which the peer handles between two reads.
TEST_F(tls_session_test, changes_its_keys) {
  talker one(between.end(0), true, 1, random_text(400'000, draw), 1000);
  talker other(between.end(1), false, 1, random_text(300'000, draw), tls_session::k_bytes_per_key);
  talk(one, other);
  EXPECT_TRUE(other.received == one.to_send);
  EXPECT_TRUE(one.received == other.to_send);
}

TEST_F(tls_session_test, shows_no_plain_text) {
  const std::string word = "a word that a third party must not see";
  std::vector<std::byte> text(word.size());
  std::memcpy(text.data(), word.data(), word.size());
  talker one(between.end(0), true, 1, text, tls_session::k_bytes_per_key);
  talker other(between.end(1), false, 1, {}, tls_session::k_bytes_per_key);
  talk(one, other);
  EXPECT_TRUE(other.received == text);
  EXPECT_TRUE(std::ranges::search(between.seen, text).empty());
}

TEST_F(tls_session_test, refuses_another_key) {
  talker one(between.end(0), true, 1, random_text(100, draw), tls_session::k_bytes_per_key);
  talker other(between.end(1), false, 2, random_text(100, draw), tls_session::k_bytes_per_key);
  talk(one, other, 2);
  EXPECT_EQ(other.error, EPROTO);
  EXPECT_EQ(one.error, EPROTO);
  EXPECT_TRUE(one.received.empty() && other.received.empty());
}

TEST_F(tls_session_test, refuses_bytes_that_were_changed) {
  talker first(between.end(0), true, 1, random_text(5000, draw), tls_session::k_bytes_per_key);
  talker second(between.end(1), false, 1, {}, tls_session::k_bytes_per_key);
  talk(first, second);
  ASSERT_TRUE(second.received == first.to_send);
  const std::size_t length = between.seen.size();
  for (std::size_t back = 1; back <= 5000; back += 491) {
    relay fresh;
    std::swap(between, fresh);
    between.changed = length - back;
    talker one(between.end(0), true, 1, first.to_send, tls_session::k_bytes_per_key);
    talker other(between.end(1), false, 1, {}, tls_session::k_bytes_per_key);
    talk(one, other);
    EXPECT_EQ(other.error, EPROTO) << back;
    EXPECT_TRUE(other.received.empty()) << back;
  }
}

TEST_F(tls_session_test, reports_the_end_of_a_connection) {
  int both[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both), 0);
  descriptor here(both[0]), there(both[1]);
  auto one = std::move(*tls_session::begin(**tls_library::load(), here.get(), true, key_of(1)));
  char byte = 0;
  ASSERT_EQ(one->read(&byte, 1), -1);
  ASSERT_EQ(errno, EAGAIN);
  there.reset();
  EXPECT_EQ(one->read(&byte, 1), -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_EQ(one->write(&byte, 1), -1);
  EXPECT_NE(errno, EAGAIN);
}

}  // namespace
}  // namespace lsched
