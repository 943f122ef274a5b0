// Tests payloads whose sizes are near certain limits of the transport net. At these limits the transport changes the
// way in which it moves payloads.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "libsched/transport/net/net_endpoint.h"
#include "tests/libsched/transport/net/net_sockets.h"

namespace lsched {
namespace {

constexpr auto k_time_to_arrive = std::chrono::seconds(60);

std::byte byte_at(std::uint64_t place, std::uint64_t seed) {
  return static_cast<std::byte>(place * 31 + place / 251 + seed);
}

std::vector<std::byte> made_of(std::uint64_t bytes, std::uint64_t seed) {
  std::vector<std::byte> made(bytes);
  for (std::uint64_t i = 0; i < bytes; ++i) made[i] = byte_at(i, seed);
  return made;
}

/// Two ranks in one process, and edges with the tags 0, 1, … from rank 0 to rank 1.
struct two_ranks {
  two_ranks(std::uint64_t capacity, std::uint32_t edges, bool in_place) : sent(edges), arrived(edges), seen(edges) {
    auto sockets = testing::connect_all(2, AF_INET);
    from = std::move(*net_endpoint::open({0, 2}, std::move(sockets[0])));
    to = std::move(*net_endpoint::open({1, 2}, std::move(sockets[1])));
    const std::array members{rank{0}, rank{1}};
    std::vector<edge_spec> specs(edges);
    for (std::uint32_t tag = 0; tag < edges; ++tag) {
      specs[tag].tag = tag;
      specs[tag].cookie = tag;
      specs[tag].capacity = capacity;
      specs[tag].in_place = in_place;
      specs[tag].peer = 1;
      specs[tag].outgoing = true;
    }
    out = *from->attach(5, members, false, specs);
    for (edge_spec& spec : specs) {
      spec.peer = 0;
      spec.outgoing = false;
    }
    in = *to->attach(5, members, false, specs);
    const std::array all{member_address{.far = 5}, member_address{.far = 5}};
    EXPECT_EQ(from->link(5, all), status::ok);
    EXPECT_EQ(to->link(5, all), status::ok);
  }

  void send(std::uint32_t edge, round_no round, const std::vector<std::byte>& what) {
    message payload{};
    payload.data = what.data();
    payload.bytes = what.size();
    sent[edge] = from->send(out[edge], round, payload);
    from->flush();
  }
  void receive(std::uint32_t edge, round_no round, std::vector<std::byte>& into) {
    seen[edge] = to->receive(in[edge], round, {into.data(), into.size()}, arrived[edge]);
    to->flush();
  }
  void poll() {
    std::array<completion, 8> news;
    for (std::size_t i = from->poll(news); i != 0; --i) sent[news[i - 1].cookie] = true;
    for (std::size_t i = to->poll(news); i != 0; --i) {
      seen[news[i - 1].cookie] = true;
      arrived[news[i - 1].cookie] = news[i - 1].what;
    }
    from->flush();
    to->flush();
  }
  bool poll_until_done(std::uint32_t edge) {
    const auto limit = std::chrono::steady_clock::now() + k_time_to_arrive;
    while (!(sent[edge] && seen[edge]) && std::chrono::steady_clock::now() < limit) poll();
    return sent[edge] && seen[edge];
  }

  std::unique_ptr<net_endpoint> from, to;
  std::vector<link_id> out, in;
  std::vector<char> sent;
  std::vector<arrival> arrived;
  std::vector<char> seen;
};

constexpr std::array<std::uint64_t, 13> k_sizes{0,     1,     4096,  4097,  16384,  16385, 16840,
                                                16841, 40000, 65536, 65537, 262145, 300000};

class net_sizes : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(net_sizes, arrive_whole_in_every_order) {
  const std::uint64_t bytes = GetParam();
  for (const bool in_place : {false, true}) {
    two_ranks both(bytes, 1, in_place);
    std::vector<std::byte> target(bytes);
    for (round_no round = 1; round <= 6; ++round) {
      std::vector<std::byte> source = made_of(bytes, round);
      if (round % 2 == 0) both.receive(0, round, target);
      both.send(0, round, source);
      if (both.sent[0]) source.assign(bytes, std::byte{});
      for (round_no turn = 0; turn < round; ++turn) both.poll();
      if (round % 2 != 0) both.receive(0, round, target);
      ASSERT_TRUE(both.poll_until_done(0)) << bytes << " bytes, round " << round;
      ASSERT_EQ(both.arrived[0].bytes, bytes);
      for (std::uint64_t i = 0; i < bytes; ++i) ASSERT_EQ(both.arrived[0].data[i], byte_at(i, round)) << i;
      if (in_place) both.to->release(both.in[0], round);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(near_limits, net_sizes, ::testing::ValuesIn(k_sizes));

// If poll() has moved bytes of a long payload, is_moving() returns true, and threads poll again. After an idle poll, or
// for a short payload, is_moving() must return false.
TEST(net_moves, are_reported_only_while_bytes_of_long_payloads_move) {
  constexpr std::uint64_t k_bytes = 5000000;
  two_ranks both(k_bytes, 1, false);
  std::vector<std::byte> target(k_bytes);
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{60000}, k_bytes}) {
    const round_no round = bytes == 0 ? 1 : bytes == k_bytes ? 3 : 2;
    const std::vector<std::byte> source = made_of(bytes, round);
    both.receive(0, round, target);
    both.send(0, round, source);
    std::uint64_t moves_from = 0, moves_to = 0;
    const auto limit = std::chrono::steady_clock::now() + k_time_to_arrive;
    for (int idle = 0; idle < 100 && std::chrono::steady_clock::now() < limit; ++idle) {
      both.poll();
      if (!both.sent[0] || !both.seen[0]) idle = 0;
      if (both.from->is_moving()) ++moves_from;
      if (both.to->is_moving()) ++moves_to;
    }
    ASSERT_TRUE(both.sent[0] && both.seen[0]) << bytes;
    EXPECT_FALSE(both.from->is_moving() || both.to->is_moving()) << bytes;
    for (const std::uint64_t moves : {moves_from, moves_to}) {
      EXPECT_LE(moves, bytes / 65536);
      EXPECT_EQ(moves != 0, bytes == k_bytes);
    }
  }
}

// The first payloads fill the control socket, so the later payloads wait for the receiver.
TEST(net_flood, of_payloads_that_nobody_reads_yet_arrives_whole) {
  constexpr std::uint32_t k_edges = 160;
  constexpr std::uint64_t k_bytes = 60000;
  two_ranks both(k_bytes, k_edges, false);
  std::vector<std::vector<std::byte>> sources, targets(k_edges, std::vector<std::byte>(k_bytes));
  for (std::uint32_t edge = 0; edge < k_edges; ++edge) {
    sources.push_back(made_of(k_bytes, edge));
    both.send(edge, 1, sources.back());
  }
  EXPECT_TRUE(both.sent.front());
  EXPECT_FALSE(both.sent.back());
  for (std::uint32_t edge = 0; edge < k_edges; ++edge) both.receive(edge, 1, targets[edge]);
  for (std::uint32_t edge = 0; edge < k_edges; ++edge) {
    ASSERT_TRUE(both.poll_until_done(edge)) << edge;
    ASSERT_EQ(targets[edge], made_of(k_bytes, edge)) << edge;
  }
}

// The receiver gives up while a payload arrives. The transport must not write to the target afterwards. A later
// instance must work.
TEST(net_flood, ends_for_a_receiver_that_gives_up) {
  constexpr std::uint32_t k_edges = 40;
  constexpr std::uint64_t k_bytes = 65536;
  two_ranks both(k_bytes, k_edges, false);
  std::vector<std::vector<std::byte>> targets(k_edges, std::vector<std::byte>(k_bytes));
  const std::vector<std::byte> source = made_of(k_bytes, 7);
  for (std::uint32_t edge = 0; edge < k_edges; ++edge) both.receive(edge, 1, targets[edge]);
  for (std::uint32_t edge = 0; edge < k_edges; ++edge) both.send(edge, 1, source);
  std::array<completion, 1> news;
  (void)both.to->poll(news);
  both.to->abandon(5);
  both.from->abandon(5);
  for (auto& target : targets) target.assign(k_bytes, std::byte{1});
  for (int turn = 0; turn < 200; ++turn) both.poll();
  for (const auto& target : targets) ASSERT_EQ(target, std::vector<std::byte>(k_bytes, std::byte{1}));
  both.from->detach(5);
  both.to->detach(5);
  EXPECT_EQ(both.from->health(), status::ok);
  EXPECT_EQ(both.to->health(), status::ok);
}

}  // namespace
}  // namespace lsched
