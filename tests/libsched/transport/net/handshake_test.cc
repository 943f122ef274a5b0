// Tests of the keyed hash and of the handshake of a connection.
#include "libsched/transport/net/handshake.h"

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libsched/schedule/draw.h"

namespace lsched {
namespace {

using state = handshake::state;

// --- the hash ----------------------------------------------------------------------------------------------------

std::string hex(const hash_bytes& of) {
  std::string text;
  for (const std::byte one : of) {
    constexpr char k_digits[] = "0123456789abcdef";
    text += k_digits[static_cast<int>(one) >> 4];
    text += k_digits[static_cast<int>(one) & 15];
  }
  return text;
}

// The expected hashes are those of the reference implementation. The key is 00 01 ... 1f, and the messages are 00 01 02
// ... with several lengths.
TEST(blake2s, equals_the_reference) {
  secret_bytes key;
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(i);
  const std::pair<std::size_t, const char*> expected[]{
      {0, "48a8997da407876b3d79c0d92325ad3b89cbb754d86ab71aee047ad345fd2c49"},
      {1, "40d15fee7c328830166ac3f918650f807e7e01e177258cdc0a39b11f598066f1"},
      {63, "c65382513f07460da39833cb666c5ed82e61b9e998f4b0c4287cee56c3cc9bcd"},
      {64, "8975b0577fd35566d750b362b0897a26c399136df07bababbde6203ff2954ed4"},
      {65, "21fe0ceb0052be7fb0f004187cacd7de67fa6eb0938d927677f2398c132317a8"},
      {127, "ddbfea75cc467882eb3483ce5e2e756a4f4701b76b445519e89f22d60fa86e06"},
      {128, "0c311f38c35a4fb90d651c289d486856cd1413df9b0677f53ece2cd9e477c60a"},
      {129, "46a73a8dd3e70f59d3942c01df599def783c9da82fd83222cd662b53dce7dbdf"},
      {255, "3fb735061abc519dfe979e54c1ee5bfad0a9d858b3315bad34bde999efd724dd"},
  };
  for (const auto& [bytes, hash] : expected) {
    std::vector<std::byte> message(bytes);
    for (std::size_t i = 0; i < bytes; ++i) message[i] = static_cast<std::byte>(i);
    EXPECT_EQ(hex(blake2s(key, message)), hash) << bytes << " bytes";
  }
}

TEST(blake2s, compares_every_byte) {
  const hash_bytes one = blake2s({}, {});
  EXPECT_TRUE(is_equal(one, one));
  for (std::size_t i = 0; i < one.size(); ++i) {
    hash_bytes other = one;
    other[i] ^= std::byte{0x10};
    EXPECT_FALSE(is_equal(one, other)) << i;
  }
}

// --- the handshake -----------------------------------------------------------------------------------------------

struct socket_pair {
  socket_pair() {
    int both[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both) != 0) std::abort();
    here = descriptor(both[0]);
    there = descriptor(both[1]);
  }
  descriptor here, there;
};

net_job job_of(unsigned secret, std::uint64_t build = 7) {
  net_job made{.build = build};
  made.secret.fill(static_cast<std::byte>(secret));
  return made;
}

/// Advances both ends until no end is pending. Returns their states.
std::pair<state, state> finish(handshake& one, handshake& other) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  std::pair<state, state> how{};
  while ((how.first == state::pending || how.second == state::pending) && std::chrono::steady_clock::now() < limit) {
    if (how.first == state::pending) how.first = one.advance();
    if (how.first == state::refused) (void)one.take_connection();
    if (how.second == state::pending) how.second = other.advance();
    if (how.second == state::refused) (void)other.take_connection();
  }
  return how;
}

TEST(handshake, proves_both_ranks) {
  for (const std::uint32_t which : {0u, 1u}) {
    socket_pair sockets;
    auto connector = handshake::to_listener(std::move(sockets.here), job_of(1), 3, 2, which);
    auto listener = handshake::to_connector(std::move(sockets.there), job_of(1), 2, 5);
    EXPECT_EQ(finish(connector, listener), (std::pair{state::proven, state::proven}));
    EXPECT_EQ(connector.peer(), 2);
    EXPECT_EQ(listener.peer(), 3);
    EXPECT_EQ(listener.which(), which);
    // Bytes that follow the handshake belong to the connection.
    const stream_socket out = connector.take_connection(), in = listener.take_connection();
    char word[4] = "abc";
    ASSERT_EQ(send(out.get(), word, 4, MSG_NOSIGNAL), 4);
    std::memset(word, 0, 4);
    ASSERT_EQ(recv(in.get(), word, 4, 0), 4);
    EXPECT_STREQ(word, "abc");
  }
}

TEST(handshake, refuses_another_secret_another_build_and_other_ranks) {
  struct mismatch {
    net_job theirs;
    rank self, peer;
  };
  const mismatch all[]{{job_of(2), 3, 2}, {job_of(1, 8), 3, 2}, {job_of(1), 3, 1},
                       {job_of(1), 5, 2}, {job_of(1), -1, 2},   {job_of(1), 2, 2}};
  for (const mismatch& it : all) {
    socket_pair sockets;
    auto connector = handshake::to_listener(std::move(sockets.here), it.theirs, it.self, it.peer, 0);
    auto listener = handshake::to_connector(std::move(sockets.there), job_of(1), 2, 5);
    EXPECT_EQ(finish(connector, listener), (std::pair{state::refused, state::refused}))
        << "rank " << it.self << " to " << it.peer;
  }
}

// An attacker between the two ends changes one bit of the handshake. For every such bit, the connector or the listener
// must refuse the handshake.
TEST(handshake, refuses_every_changed_bit) {
  for (std::size_t changed = 0; changed < (64 + 64 + 32 + 8) * 8; ++changed) {
    socket_pair left, right;
    auto connector = handshake::to_listener(std::move(left.here), job_of(1), 3, 2, 0);
    auto listener = handshake::to_connector(std::move(right.there), job_of(1), 2, 5);
    std::size_t moved = 0;
    const auto pass_on = [&](const descriptor& from, const descriptor& to) {
      std::byte buffer[256];
      const ssize_t bytes = recv(from.get(), buffer, sizeof buffer, 0);
      if (bytes <= 0) return;
      if (moved <= changed / 8 && changed / 8 < moved + static_cast<std::size_t>(bytes))
        buffer[changed / 8 - moved] ^= static_cast<std::byte>(1 << changed % 8);
      moved += static_cast<std::size_t>(bytes);
      ASSERT_EQ(send(to.get(), buffer, static_cast<std::size_t>(bytes), MSG_NOSIGNAL), bytes);
    };
    state one = state::pending, other = state::pending;
    for (int k = 0; k < 6; ++k) {
      if (one == state::pending) one = connector.advance();
      pass_on(left.there, right.here);
      if (other == state::pending) other = listener.advance();
      pass_on(right.here, left.there);
    }
    EXPECT_FALSE(one == state::proven && other == state::proven) << "bit " << changed;
  }
}

TEST(handshake, refuses_a_proof_that_is_sent_back) {
  socket_pair sockets;
  auto listener = handshake::to_connector(std::move(sockets.there), job_of(1), 2, 5);
  auto connector = handshake::to_listener(std::move(sockets.here), job_of(1), 3, 2, 0);
  ASSERT_EQ(connector.advance(), state::pending);
  ASSERT_EQ(listener.advance(), state::pending);
  const stream_socket stranger = connector.take_connection();
  std::byte answer[64];
  ASSERT_EQ(recv(stranger.get(), answer, sizeof answer, 0), 64);
  ASSERT_EQ(send(stranger.get(), answer + 32, 32, MSG_NOSIGNAL), 32);
  EXPECT_EQ(listener.advance(), state::refused);
}

/// Passes on the bytes that one end has sent. Changes, cuts or lengthens the message, as `dice` decides.
class forger {
 public:
  explicit forger(std::uint64_t seed) : dice_(seed) {}
  bool has_changed() const { return has_changed_; }

  void pass_on(const descriptor& from, const descriptor& to) {
    std::array<std::byte, 256> bytes{};
    const ssize_t found = recv(from.get(), bytes.data(), 128, 0);
    if (found <= 0) return;
    auto count = static_cast<std::size_t>(found);
    const std::array original = bytes;
    for (std::uint64_t k = draw(4); k != 0; --k) bytes[draw(count)] = static_cast<std::byte>(draw(256));
    if (draw(8) == 0)
      for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(draw(256));
    has_changed_ = has_changed_ || bytes != original;
    if (draw(4) == 0) {
      count = 1 + draw(count);
      has_changed_ = has_changed_ || count != static_cast<std::size_t>(found);
    } else if (draw(8) == 0) {
      count += draw(64);  // bytes that follow the handshake belong to the connection
    }
    (void)!send(to.get(), bytes.data(), count, MSG_NOSIGNAL);
  }

 private:
  std::uint64_t draw(std::uint64_t below) { return (dice_ = mix(dice_ + 1)) % below; }
  std::uint64_t dice_;
  bool has_changed_ = false;
};

// LSCHED_TEST_HANDSHAKES sets the number of handshakes.
TEST(handshake, refuses_what_a_forger_has_changed) {
  const char* const wish = std::getenv("LSCHED_TEST_HANDSHAKES");
  const std::uint64_t seeds = wish != nullptr ? std::strtoull(wish, nullptr, 10) : 5'000;
  std::uint64_t proven = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    socket_pair left, right;
    auto connector = handshake::to_listener(std::move(left.here), job_of(1), 3, 2, seed % 2);
    auto listener = handshake::to_connector(std::move(right.there), job_of(1), 2, 5);
    forger between(seed);
    state one = state::pending, other = state::pending;
    for (int k = 0; k < 4; ++k) {
      if (one == state::pending) one = connector.advance();
      between.pass_on(left.there, right.here);
      if (other == state::pending) other = listener.advance();
      between.pass_on(right.here, left.there);
    }
    if (one == state::pending) one = connector.advance();
    if (one == state::proven && other == state::proven) {
      ++proven;
      ASSERT_FALSE(between.has_changed()) << "seed " << seed;
    }
  }
  EXPECT_GT(proven, 0u) << "no handshake was left unchanged";
}

TEST(handshake, refuses_a_peer_that_leaves_at_any_byte) {
  for (std::size_t length = 0; length < 64; ++length) {
    socket_pair sockets;
    auto listener = handshake::to_connector(std::move(sockets.there), job_of(1), 2, 5);
    const std::vector<std::byte> some(length);
    ASSERT_EQ(send(sockets.here.get(), some.data(), length, MSG_NOSIGNAL), static_cast<ssize_t>(length));
    EXPECT_EQ(listener.advance(), state::pending);
    sockets.here.reset();
    EXPECT_EQ(listener.advance(), state::refused);
  }
}

TEST(handshake, draws_different_secrets) {
  secret_bytes one{}, other{};
  ASSERT_TRUE(draw_secret(one) && draw_secret(other));
  EXPECT_NE(one, other);
}

}  // namespace
}  // namespace lsched
