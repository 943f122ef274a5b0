// Tests of the transport net with peers that sleep, read nothing, break the protocol, close or die.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "libsched/transport/net/net_endpoint.h"
#include "tests/conformance/endpoint_exam.h"
#include "tests/conformance/exam_sleeper.h"
#include "tests/libsched/transport/net/net_sockets.h"

namespace lsched {
namespace {

using testing::connect_all;
using testing::sampled;

constexpr auto k_patience = std::chrono::seconds(60);

/// Endpoints of all ranks in one process.
std::vector<std::unique_ptr<net_endpoint>> open_all(rank ranks, bool is_encrypted = false) {
  auto sockets = connect_all(ranks, AF_INET, is_encrypted);
  std::vector<std::unique_ptr<net_endpoint>> all;
  for (rank r = 0; r < ranks; ++r)
    all.push_back(std::move(*net_endpoint::open({r, ranks}, std::move(sockets[static_cast<std::size_t>(r)]))));
  return all;
}

std::vector<rank> ranks_below(rank count) {
  std::vector<rank> all;
  for (rank r = 0; r < count; ++r) all.push_back(r);
  return all;
}

/// An instance with one edge from rank 0 to rank 1. The id of the instance is 5 on all ranks.
struct one_edge {
  one_edge(net_endpoint& from, net_endpoint& to, rank ranks, edge_spec edge, bool credits = false) {
    const std::vector<rank> members = ranks_below(ranks);
    edge.outgoing = true;
    edge.peer = 1;
    out = from.attach(5, members, credits, std::vector{edge})->front();
    edge.outgoing = false;
    edge.peer = 0;
    in = to.attach(5, members, credits, std::vector{edge})->front();
    const std::vector<member_address> all(members.size(), member_address{.far = 5});
    EXPECT_EQ(from.link(5, all), status::ok);
    EXPECT_EQ(to.link(5, all), status::ok);
  }
  link_id out, in;
};

/// Polls the endpoints until the condition holds. Returns false after a long time.
template <class Condition>
bool poll_until(std::initializer_list<net_endpoint*> all, Condition&& holds) {
  const auto limit = std::chrono::steady_clock::now() + k_patience;
  std::array<completion, 8> news;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    for (net_endpoint* const each : all) {
      (void)each->poll(news);
      each->flush();
    }
  }
  return true;
}

// --- sleep -------------------------------------------------------------------------------------------------------

struct sleeping_world final : exam::exam_world {
  std::vector<endpoint*> make(rank ranks) override {
    end = std::move(*net_endpoint::open({self, ranks}, std::move(sockets)));
    std::vector<endpoint*> all(static_cast<std::size_t>(ranks));
    all[static_cast<std::size_t>(self)] = end.get();
    return all;
  }
  std::chrono::milliseconds patience() const override { return k_patience; }
  void enter_fence() override {
    entered += 2;
    arrivals->fetch_add(1);
  }
  bool is_fence_open() override { return arrivals->load() >= entered; }

  rank self = 0;
  std::vector<net_sockets> sockets{};
  std::atomic<int>* arrivals = nullptr;
  int entered = 0;
  std::unique_ptr<net_endpoint> end{};
};

// --- data, in the clear and encrypted --------------------------------------------------------------------------

/// The parameter is true if the connections are encrypted.
class net_data : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !testing::has_tls()) GTEST_SKIP() << "the system has no OpenSSL 3";
  }
};

INSTANTIATE_TEST_SUITE_P(both, net_data, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "encrypted" : "clear"; });

TEST_P(net_data, loses_no_message_between_threads_that_sleep) {
  const round_no rounds = sampled() ? 2'000 : 20'000;
  auto sockets = connect_all(2, AF_INET, GetParam());
  std::atomic<int> arrivals = 0;
  std::array<int, 2> lost{};
  std::array<std::string, 2> answers;
  const auto run = [&](rank self) {
    const auto mine = static_cast<std::size_t>(self);
    sleeping_world world;
    world.self = self;
    world.sockets = std::move(sockets[mine]);
    world.arrivals = &arrivals;
    exam::bench b(world);
    try {
      b.start(2);
      b.connect({{.from = 0, .to = 1, .capacity = 20000, .in_place = true}, {.from = 1, .to = 0, .capacity = 20000}});
      for (round_no round = 1; round <= rounds; ++round) {
        for (std::size_t way = 0; way < 2; ++way) b.post_send(way, round, exam::parcel_of(way, round, 20000));
        for (std::size_t way = 0; way < 2; ++way) b.post_receive(way, round);
        const auto is_received = [&] { return b.is_received(1 - mine); };
        exam::sleep_until(b, self, is_received, lost[mine]);
        b.await_parcel(1 - mine, exam::parcel_of(1 - mine, round, 20000));
        const auto is_sent = [&] { return b.is_sent(mine); };
        exam::sleep_until(b, self, is_sent, lost[mine]);
      }
      b.at(self).flush();  // sends what remains, because this thread does not poll any more
      b.fence();
    } catch (const exam::complaint& found) {
      answers[mine] = found.text;
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  for (const std::string& answer : answers) EXPECT_EQ(answer, "");
  EXPECT_EQ(lost, (std::array<int, 2>{}));
}

// --- peers that read nothing -------------------------------------------------------------------------------------

// While the peer reads nothing, newer values replace older values, and the newest value arrives.
TEST_P(net_data, merges_signals_for_a_peer_that_reads_nothing) {
  const auto ends = open_all(2, GetParam());
  net_endpoint &from = *ends[0], &to = *ends[1];
  const one_edge edge(from, to, 2, {.signal = true});
  constexpr round_no k_rounds = 1'000'000;
  for (round_no round = 1; round <= k_rounds; ++round) {
    from.signal(edge.out, round);
    if (round % 4 == 0) from.flush();
  }
  EXPECT_TRUE(from.is_listening());  // the socket is full, so this rank must poll until it has sent the value
  bool is_there = to.arm(edge.in, k_rounds);
  std::array<completion, 4> news;
  EXPECT_TRUE(poll_until({&from}, [&] { return is_there || (is_there = to.poll(news) == 1); }));
  EXPECT_FALSE(from.is_listening());
}

// The receiver keeps the credit of the first message until the second message was consumed. The sender does not need
// this credit for the third message.
TEST_P(net_data, sends_a_credit_before_the_sender_needs_it) {
  const auto ends = open_all(2, GetParam());
  net_endpoint &from = *ends[0], &to = *ends[1];
  const one_edge edge(from, to, 2, {.capacity = 8}, true);
  const std::array<std::byte, 8> source{std::byte{7}};
  std::array<std::byte, 8> target{};
  const auto consume = [&](round_no round) {
    arrival news;
    std::array<completion, 4> done;
    bool is_there = to.receive(edge.in, round, {target.data(), target.size()}, news);
    return poll_until({&from}, [&] { return is_there || (is_there = to.poll(done) == 1); });
  };
  for (round_no round = 1; round <= 3; ++round) EXPECT_TRUE(from.send(edge.out, round, {source.data(), 8}));
  EXPECT_FALSE(from.send(edge.out, 4, {source.data(), 8}));
  std::array<completion, 4> done;
  for (round_no round = 1; round <= 1'000; ++round) {
    ASSERT_TRUE(consume(2 * round - 1));
    to.flush();
    EXPECT_EQ(from.poll(done), 0u) << "round " << round;
    ASSERT_TRUE(consume(2 * round));
    std::size_t sent = 0;
    ASSERT_TRUE(poll_until({&to}, [&] { return sent != 0 || (sent = from.poll(done)) != 0; }));
    EXPECT_TRUE(from.send(edge.out, 2 * round + 3, {source.data(), 8}));
    EXPECT_FALSE(from.send(edge.out, 2 * round + 4, {source.data(), 8}));
  }
  EXPECT_EQ(target, source);
}

// A rank sends a large payload and a signal to a rank that reads nothing. The signal must not wait until the payload
// has been sent.
TEST_P(net_data, delivers_signals_beside_a_large_payload) {
  constexpr std::uint64_t k_bytes = std::uint64_t{64} << 20;
  const auto ends = open_all(2, GetParam());
  net_endpoint &from = *ends[0], &to = *ends[1];
  const std::vector<rank> members{0, 1};
  const auto out = *from.attach(5, members, false,
                                std::vector<edge_spec>{{.outgoing = true, .peer = 1, .capacity = k_bytes},
                                                       {.outgoing = true, .signal = true, .peer = 1, .tag = 1}});
  const auto in =
      *to.attach(5, members, false,
                 std::vector<edge_spec>{{.peer = 0, .capacity = k_bytes}, {.signal = true, .peer = 0, .tag = 1}});
  const std::vector<member_address> all(2, member_address{.far = 5});
  ASSERT_EQ(from.link(5, all), status::ok);
  ASSERT_EQ(to.link(5, all), status::ok);
  std::vector<std::byte> source(k_bytes, std::byte{7}), target(k_bytes);
  arrival news;
  ASSERT_FALSE(to.receive(in[0], 1, target.data(), news));
  to.flush();
  std::array<completion, 4> some;
  (void)from.poll(some);  // reads the `ready` frame of the receiver
  ASSERT_FALSE(from.send(out[0], 1, {source.data(), k_bytes}));
  from.flush();
  from.signal(out[1], 1);
  from.flush();
  (void)to.poll({});
  EXPECT_TRUE(to.arm(in[1], 1));
  std::size_t done = 0;
  EXPECT_TRUE(poll_until({}, [&] { return (done += from.poll(some) + to.poll(some)) == 2; }));
  EXPECT_EQ(target, source);
}

// The sender gives up a payload after a part of it was sent. The receiver must never report the payload as received.
// The sender may change the source at once.
TEST_P(net_data, invalidates_a_payload_that_was_given_up) {
  constexpr std::uint64_t k_bytes = std::uint64_t{64} << 20;
  const auto ends = open_all(2, GetParam());
  net_endpoint &from = *ends[0], &to = *ends[1];
  const one_edge edge(from, to, 2, {.capacity = k_bytes});
  std::vector<std::byte> source(k_bytes, std::byte{7}), target(k_bytes);
  arrival news;
  std::array<completion, 4> some;
  ASSERT_FALSE(to.receive(edge.in, 1, target.data(), news));
  to.flush();
  (void)from.poll(some);
  ASSERT_FALSE(from.send(edge.out, 1, {source.data(), k_bytes}));
  from.flush();  // the sockets are full after this call
  from.abandon(5);
  rank reader = 0;
  EXPECT_EQ(from.check_readers(5, &reader), status::ok);
  std::ranges::fill(source, std::byte{9});
  // The connection must still work: another instance uses it.
  const std::vector<rank> members{0, 1};
  const auto out =
      from.attach(6, members, false, std::vector<edge_spec>{{.outgoing = true, .peer = 1, .capacity = 100'000}});
  const auto in = to.attach(6, members, false, std::vector<edge_spec>{{.peer = 0, .capacity = 100'000, .cookie = 6}});
  const std::vector<member_address> all(2, member_address{.far = 6});
  ASSERT_EQ(from.link(6, all), status::ok);
  ASSERT_EQ(to.link(6, all), status::ok);
  std::vector<std::byte> second(100'000);
  ASSERT_FALSE(to.receive(in->front(), 1, second.data(), news));
  to.flush();
  (void)from.poll(some);
  (void)from.send(out->front(), 1, {source.data(), second.size()});
  bool is_there = false;
  EXPECT_TRUE(poll_until({&from}, [&] {
    for (std::size_t found = to.poll(some), i = 0; i < found; ++i) {
      EXPECT_EQ(some[i].cookie, 6u) << "the payload that was given up is reported as received";
      is_there = true;
    }
    return is_there;
  }));
  EXPECT_TRUE(std::ranges::all_of(second, [](std::byte one) { return one == std::byte{9}; }));
  EXPECT_TRUE(std::ranges::none_of(target, [](std::byte one) { return one == std::byte{9}; }));
}

TEST_P(net_data, writes_nothing_to_a_target_whose_receive_was_withdrawn) {
  constexpr std::uint64_t k_bytes = std::uint64_t{64} << 20;
  const auto ends = open_all(2, GetParam());
  net_endpoint &from = *ends[0], &to = *ends[1];
  const one_edge edge(from, to, 2, {.capacity = k_bytes});
  const std::vector<std::byte> source(k_bytes, std::byte{7});
  std::vector<std::byte> target(k_bytes);
  arrival news;
  ASSERT_FALSE(to.receive(edge.in, 1, target.data(), news));
  ASSERT_FALSE(from.send(edge.out, 1, {source.data(), k_bytes}));
  ASSERT_TRUE(poll_until({&from, &to}, [&] { return target.front() == std::byte{7}; }));
  ASSERT_EQ(target.back(), std::byte{}) << "the whole payload has arrived, so nothing can be withdrawn";
  to.disarm(edge.in);
  EXPECT_FALSE(to.is_listening());
  std::ranges::fill(target, std::byte{});
  bool is_sent = false;
  EXPECT_TRUE(poll_until({&to}, [&] {
    std::array<completion, 4> some;
    is_sent = is_sent || from.poll(some) != 0;
    from.flush();
    return is_sent;
  }));
  // The next message must arrive after the rest of the withdrawn payload.
  ASSERT_FALSE(to.receive(edge.in, 2, target.data(), news));
  ASSERT_FALSE(from.send(edge.out, 2, {source.data(), 1 << 20}));
  bool is_there = false;
  EXPECT_TRUE(poll_until({&from}, [&] {
    std::array<completion, 4> some;
    is_there = is_there || to.poll(some) != 0;
    to.flush();
    return is_there;
  }));
  EXPECT_EQ(to.health(), status::ok);
  EXPECT_EQ(std::ranges::count(target, std::byte{7}), 1 << 20);
}

// A signal that waits behind many messages must be sent as soon as the socket has room, without another call of
// signal() or flush().
TEST_P(net_data, writes_values_behind_many_messages) {
  const auto ends = open_all(2, GetParam());
  net_endpoint &from = *ends[0], &to = *ends[1];
  const std::vector<rank> members{0, 1};
  std::vector<edge_spec> out, in;
  for (std::uint32_t tag = 0; tag < 6; ++tag) {
    out.push_back({.outgoing = true, .signal = tag == 5, .peer = 1, .tag = tag, .capacity = 16384});
    in.push_back({.signal = tag == 5, .peer = 0, .tag = tag, .capacity = 16384});
  }
  const auto senders = *from.attach(5, members, false, out), receivers = *to.attach(5, members, false, in);
  const std::vector<member_address> all(2, member_address{.far = 5});
  ASSERT_EQ(from.link(5, all), status::ok);
  ASSERT_EQ(to.link(5, all), status::ok);
  std::vector<std::byte> source(16384);
  for (std::size_t k = 0; k < 5; ++k) ASSERT_TRUE(from.send(senders[k], 1, {source.data(), source.size()}));
  from.signal(senders[5], 1);
  from.flush();
  bool is_there = to.arm(receivers[5], 1);
  std::array<completion, 4> news;
  const auto polls = [&] { return is_there || (is_there = to.poll(news) == 1); };
  if (from.is_listening())
    EXPECT_TRUE(poll_until({&from}, polls));
  else
    EXPECT_TRUE(poll_until({}, polls));
}

// When another instance uses the link, the socket still contains a part of an abandoned payload. The payload of the
// other instance is also abandoned.
TEST_P(net_data, abandons_a_payload_of_a_link_that_is_used_again) {
  constexpr std::uint64_t k_bytes = std::uint64_t{64} << 20;
  const auto ends = open_all(2, GetParam());
  net_endpoint &from = *ends[0], &to = *ends[1];
  std::vector<std::byte> source(k_bytes, std::byte{7}), target(k_bytes);
  std::array<completion, 4> some;
  arrival news;
  for (const std::uint32_t id : {5u, 6u}) {
    const std::vector<rank> members{0, 1};
    const auto out =
        *from.attach(id, members, false, std::vector<edge_spec>{{.outgoing = true, .peer = 1, .capacity = k_bytes}});
    const auto in = *to.attach(id, members, false, std::vector<edge_spec>{{.peer = 0, .capacity = k_bytes}});
    const std::vector<member_address> all(2, member_address{.far = id});
    ASSERT_EQ(from.link(id, all), status::ok);
    ASSERT_EQ(to.link(id, all), status::ok);
    ASSERT_FALSE(to.receive(in[0], 1, target.data(), news));
    to.flush();
    (void)from.poll(some);
    ASSERT_FALSE(from.send(out[0], 1, {source.data(), k_bytes}));
    from.flush();
    from.abandon(id);
    from.detach(id);
    to.abandon(id);
    to.detach(id);
  }
  source = {};  // the address sanitizer would detect a read of the old memory
  for (int k = 0; k < 200; ++k) {
    EXPECT_EQ(to.poll(some), 0u);
    EXPECT_EQ(from.poll(some), 0u);
  }
  EXPECT_EQ(from.health(), status::ok);
  EXPECT_EQ(to.health(), status::ok);
}

// --- peers that leave --------------------------------------------------------------------------------------------

// All messages that were sent before a close arrive, although the receiver reads them only afterwards.
TEST_P(net_data, delivers_what_was_sent_before_a_close) {
  const auto ends = open_all(3, GetParam());
  const one_edge edge(*ends[0], *ends[1], 3, {.capacity = 16000});
  std::vector<std::byte> source(16000, std::byte{3}), target(16000);
  ASSERT_TRUE(ends[0]->send(edge.out, 1, {source.data(), source.size()}));
  ends[0]->close();
  arrival news;
  std::array<completion, 4> some;
  bool is_there = ends[1]->receive(edge.in, 1, target.data(), news);
  EXPECT_TRUE(poll_until({}, [&] { return is_there || (is_there = ends[1]->poll(some) == 1); }));
  EXPECT_EQ(target, source);
  EXPECT_EQ(ends[1]->find_dead_peer(), k_no_rank);
  EXPECT_FALSE(ends[1]->has_bad_news());
}

/// Opens endpoints for all ranks but the last. Returns the sockets of the last rank, which the test drives.
struct world_with_stranger {
  explicit world_with_stranger(rank ranks) : sockets(connect_all(ranks, AF_INET)) {
    for (rank r = 0; r < ranks - 1; ++r)
      ends.push_back(std::move(*net_endpoint::open({r, ranks}, std::move(sockets[static_cast<std::size_t>(r)]))));
  }
  std::vector<net_sockets>& stranger() { return sockets.back(); }
  std::vector<std::vector<net_sockets>> sockets;
  std::vector<std::unique_ptr<net_endpoint>> ends;
};

// Rank 3 has connections only to ranks 0 and 1, so only these ranks can see its loss. They must inform rank 2.
TEST(net, reports_a_lost_rank_on_all_ranks) {
  world_with_stranger world(4);
  world.stranger()[0] = {};
  world.stranger()[1] = {};
  for (const auto& each : world.ends)
    EXPECT_TRUE(
        poll_until({world.ends[0].get(), world.ends[1].get(), world.ends[2].get()}, [&] { return each->is_lost(3); }));
  for (const auto& each : world.ends) {
    EXPECT_EQ(each->take_loss(), 3);
    EXPECT_EQ(each->take_loss(), k_no_rank);
    EXPECT_EQ(each->lost_after(0), 3);
    EXPECT_EQ(each->lost_after(1), k_no_rank);
    EXPECT_EQ(each->find_dead_peer(), 3);
  }
}

// The loss of a peer must wake a rank that sleeps.
TEST(net, rings_the_bell_of_a_rank_whose_peer_is_lost) {
  world_with_stranger world(2);
  net_endpoint& end = *world.ends[0];
  doorbell& bell = end.bell();
  const std::uint32_t epoch = bell.word[doorbell::waiter].load();
  bell.sleepers = 1;
  (void)end.poll({});
  world.stranger()[0] = {};
  sleep_on(bell, doorbell::waiter, epoch, k_patience);
  EXPECT_NE(bell.word[doorbell::waiter].load(), epoch);
  EXPECT_TRUE(poll_until({&end}, [&] { return end.is_lost(1); }));
}

// A rank dies, but a process that it has forked lives on, like a worker of a data loader. The death of the rank must be
// detected nevertheless.
TEST(net, detects_the_death_of_a_rank_that_has_forked) {
  auto sockets = connect_all(2, AF_INET);
  int stop[2], ready[2];
  ASSERT_EQ(pipe(stop), 0);
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    sockets[0].clear();
    const auto end = net_endpoint::open({1, 2}, std::move(sockets[1]));
    close(stop[1]);
    char byte = 0;
    if (fork() == 0) {
      (void)!write(ready[1], &byte, 1);
      (void)!read(stop[0], &byte, 1);  // this process lives until the test ends
      _exit(0);
    }
    (void)!read(ready[0], &byte, 1);
    _exit(0);
  }
  sockets[1].clear();
  auto opened = net_endpoint::open({0, 2}, std::move(sockets[0]));
  ASSERT_TRUE(opened.has_value());
  EXPECT_TRUE(poll_until({opened->get()}, [&] { return (*opened)->is_lost(1); }));
  (void)close(stop[1]);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  for (const int each : {stop[0], ready[0], ready[1]}) (void)close(each);
}

// The child closes the sockets and opens other files with the same descriptors. A fork of the child must not replace
// these files.
TEST(net, replaces_sockets_only_in_the_children_of_the_rank) {
  auto sockets = connect_all(2, AF_INET);
  const auto end = net_endpoint::open({0, 2}, std::move(sockets[0]));
  ASSERT_TRUE(end.has_value());
  constexpr int k_first = STDERR_FILENO + 1, k_end = 200;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto file_of = [](int number) {
      struct stat found {};
      return fstat(number, &found) == 0 ? found.st_ino : 0;
    };
    std::array<ino_t, k_end> files{};
    for (int number = k_first; number < k_end; ++number) (void)close(number);
    for (int number = k_first; number < k_end; ++number) {
      if (memfd_create("other", 0) != number) _exit(2);
      files[static_cast<std::size_t>(number)] = file_of(number);
    }
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      for (int number = k_first; number < k_end; ++number)
        if (file_of(number) != files[static_cast<std::size_t>(number)]) _exit(1);
      _exit(0);
    }
    int how = 0;
    (void)waitpid(grandchild, &how, 0);
    _exit(how == 0 ? 0 : 1);
  }
  int how = 0;
  EXPECT_EQ(waitpid(child, &how, 0), child);
  EXPECT_EQ(how, 0);
}

/// Returns memory that permits only the accesses in `protection`.
std::byte* protected_memory(std::uint64_t bytes, int protection) {
  return static_cast<std::byte*>(mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

// The error must name the rank whose application has passed the memory. The peer must not count as lost.
TEST(net, fails_with_its_own_name_if_it_cannot_access_the_memory_of_a_payload) {
  constexpr std::uint64_t k_bytes = std::uint64_t{1} << 20;  // the kernel accesses the memory of large payloads
  for (const bool is_source : {false, true}) {
    std::vector<std::byte> good(k_bytes);  // the sender may read this memory until its endpoint is closed
    const auto ends = open_all(2);
    net_endpoint &from = *ends[0], &to = *ends[1];
    const one_edge edge(from, to, 2, {.capacity = k_bytes});
    std::byte* const bad = protected_memory(k_bytes, is_source ? PROT_NONE : PROT_READ);
    arrival news;
    (void)to.receive(edge.in, 1, is_source ? good.data() : bad, news);
    (void)from.send(edge.out, 1, {is_source ? bad : good.data(), k_bytes});
    net_endpoint& culprit = is_source ? from : to;
    EXPECT_TRUE(poll_until({&from, &to}, [&] { return culprit.health() != status::ok; }));
    EXPECT_EQ(culprit.health(), status::transport);
    EXPECT_EQ(culprit.culprit(), culprit.place().self);
    for (const auto& each : ends) EXPECT_EQ(each->lost_after(0), k_no_rank);
    (void)munmap(bad, k_bytes);
  }
}

// A receive may still wait when the peer ends its edge and closes, for example a receive of a mailbox. The peer must
// then count as departed, not as lost.
TEST(net, does_not_lose_a_rank_that_ends_its_edges_and_closes) {
  const auto ends = open_all(2);
  net_endpoint &from = *ends[0], &to = *ends[1];
  const one_edge edge(from, to, 2, {.capacity = 8});
  std::array<std::byte, 8> target{};
  arrival news;
  ASSERT_FALSE(to.receive(edge.in, 1, target.data(), news));
  from.end_edge(edge.out, 0);
  from.close();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(to.find_dead_peer(), k_no_rank);
  const auto departure = to.take_cancellation();
  ASSERT_TRUE(departure.has_value());
  EXPECT_TRUE(departure->is_departure);
}

// A rank that waits for a closed peer detects the close. A board counts the closed rank as a member that has left.
TEST(net, fails_a_commit_with_a_rank_that_has_gone) {
  for (const bool is_closed : {false, true})
    for (const rank gone : {0, 1, 2}) {
      const auto ends = open_all(3);
      std::vector<std::unique_ptr<board>> boards;
      for (const auto& each : ends) boards.push_back(each->open_home_board());
      if (is_closed) ends[static_cast<std::size_t>(gone)]->close();
      for (rank r = 0; r < 3; ++r) {
        if (r == gone) continue;
        const auto at = static_cast<std::size_t>(r);
        rank missing = k_no_rank;
        ASSERT_EQ(boards[at]->post({}, &missing), status::ok);
      }
      if (!is_closed) boards[static_cast<std::size_t>(gone)].reset();
      if (gone != 0 && !is_closed) ends[static_cast<std::size_t>(gone)]->close();
      for (rank r = 0; r < 3; ++r) {
        if (r == gone) continue;
        const auto at = static_cast<std::size_t>(r);
        rank missing = k_no_rank;
        status how = status::pending;
        std::vector<std::byte> all(3 * board::record_bytes);
        EXPECT_TRUE(poll_until({ends[0].get(), ends[1].get(), ends[2].get()}, [&] {
          how = boards[at]->gather(all, &missing);
          return how != status::pending;
        }));
        EXPECT_EQ(how, status::peer);
        EXPECT_EQ(missing, gone) << "rank " << r;
      }
    }
}

// A rank may post the record of its first commit before its peer has opened a board.
TEST(net, keeps_a_record_that_arrives_before_the_first_board_is_open) {
  const auto ends = open_all(3);
  std::vector<std::unique_ptr<board>> boards;
  rank missing = k_no_rank;
  for (const std::size_t r : {1u, 2u, 0u}) {
    boards.push_back(ends[r]->open_home_board());
    ASSERT_EQ(boards.back()->post({}, &missing), status::ok);
    int polls = 0;  // after some polls, rank 0 has read the record
    EXPECT_TRUE(poll_until({ends[0].get(), ends[1].get(), ends[2].get()}, [&] { return ++polls == 100; }));
  }
  std::vector<std::byte> all(3 * board::record_bytes);
  for (const auto& each : boards)
    EXPECT_TRUE(poll_until({ends[0].get(), ends[1].get(), ends[2].get()},
                           [&] { return each->gather(all, &missing) == status::ok; }));
}

// Rank 2 posts its record and then leaves. Rank 1 has noticed the loss and posts no record. The commit must fail on
// rank 0.
TEST(net, fails_a_commit_that_some_ranks_do_not_make_after_a_loss) {
  const auto ends = open_all(3);
  std::vector<std::unique_ptr<board>> boards;
  for (const auto& each : ends) boards.push_back(each->open_home_board());
  rank missing = k_no_rank;
  ASSERT_EQ(boards[2]->post({}, &missing), status::ok);
  ASSERT_EQ(boards[0]->post({}, &missing), status::ok);
  int polls = 0;
  EXPECT_TRUE(poll_until({ends[0].get(), ends[1].get(), ends[2].get()}, [&] { return ++polls == 100; }));
  ends[2]->close();
  std::vector<std::byte> all(3 * board::record_bytes);
  status how = status::pending;
  EXPECT_TRUE(poll_until({ends[0].get(), ends[1].get()},
                         [&] { return (how = boards[0]->gather(all, &missing)) != status::pending; }));
  EXPECT_EQ(how, status::peer);
  EXPECT_EQ(missing, 2);
}

// --- peers that break the protocol -------------------------------------------------------------------------------

/// Sends the bytes of a stranger, and leaves all sockets open.
void send_all(const stream_socket& to, const void* bytes, std::size_t count) {
  ASSERT_EQ(::send(to.get(), bytes, count, MSG_NOSIGNAL), static_cast<ssize_t>(count));
}

TEST(net, fails_if_a_peer_sends_an_invalid_frame) {
  struct bad_frame {
    const char* what;
    bool is_bulk;
    frame head;
    message_head about;
    std::size_t further;  ///< number of bytes that follow the frame's head on the control socket
  };
  const bad_frame all[]{
      {"an unknown kind", false, {.kind = static_cast<frame_kind>(99)}, {}, 0},
      {"a bulk frame on the control socket", false, {.kind = frame_kind::part}, {}, 0},
      {"a frame of 4 GiB", false, {.kind = frame_kind::board, .bytes = ~0u}, {}, 0},
      {"a message without a head", false, {.kind = frame_kind::message, .instance = 5, .value = 1}, {}, 0},
      {"a message of another length",
       false,
       {.kind = frame_kind::message, .instance = 5, .value = 1},
       {.bytes = 9},
       40},
      {"a message that is too long",
       false,
       {.kind = frame_kind::message, .instance = 5, .value = 1},
       {.bytes = 9000},
       9032},
      {"an announcement of a small message",
       false,
       {.kind = frame_kind::announcement, .instance = 5, .value = 1},
       {.bytes = 8},
       32},
      {"an unknown rank that is lost", false, {.kind = frame_kind::lost, .value = 77}, {}, 0},
      {"a signal for a payload edge", false, {.kind = frame_kind::signal, .instance = 5, .value = 1}, {}, 0},
      {"a message on the bulk socket", true, {.kind = frame_kind::message, .instance = 5, .value = 1}, {}, 0},
      {"a part without ready",
       true,
       {.kind = frame_kind::part, .bytes = 100, .instance = 5, .value = 1},
       {.bytes = 20'000},
       0},
      {"a part of 4 GiB",
       true,
       {.kind = frame_kind::part, .bytes = ~0u, .instance = 5, .value = 1},
       {.bytes = 20'000},
       0},
  };
  for (const bad_frame& it : all) {
    world_with_stranger world(2);
    net_endpoint& end = *world.ends[0];
    const auto links =
        end.attach(5, std::vector<rank>{0, 1}, false, std::vector<edge_spec>{{.peer = 1, .capacity = 8000}});
    ASSERT_TRUE(links.has_value());
    ASSERT_EQ(end.link(5, std::vector<member_address>(2)), status::ok);
    std::vector<std::byte> bytes(sizeof it.head + std::max(it.further, it.is_bulk ? sizeof it.about : 0));
    frame head = it.head;
    if (head.bytes == 0) head.bytes = static_cast<std::uint32_t>(it.further);
    std::memcpy(bytes.data(), &head, sizeof head);
    if (bytes.size() >= sizeof head + sizeof it.about)
      std::memcpy(bytes.data() + sizeof head, &it.about, sizeof it.about);
    net_sockets& of = world.stranger()[0];
    send_all(it.is_bulk ? of.bulk : of.control, bytes.data(), bytes.size());
    EXPECT_TRUE(poll_until({&end}, [&] { return end.health() != status::ok; })) << it.what;
    EXPECT_EQ(end.health(), status::transport) << it.what;
    EXPECT_EQ(end.culprit(), 1) << it.what;
  }
}

// A stranger sends a part of a large message, and then a complete small message of the same round. The endpoint must
// report bad health, and must not write beyond the target.
TEST(net, never_writes_beyond_a_target) {
  world_with_stranger world(2);
  net_endpoint& end = *world.ends[0];
  constexpr std::uint64_t k_bytes = 20'000;
  const auto links =
      *end.attach(5, std::vector<rank>{0, 1}, false, std::vector<edge_spec>{{.peer = 1, .capacity = k_bytes}});
  ASSERT_EQ(end.link(5, std::vector<member_address>(2)), status::ok);
  std::vector<std::byte> memory(2 * k_bytes, std::byte{1});
  const auto send_frame = [&](bool is_bulk, frame head, const message_head& about, std::size_t payload) {
    head.bytes = static_cast<std::uint32_t>(payload + (is_bulk ? 0 : sizeof about));
    std::vector<std::byte> bytes(sizeof head + sizeof about + payload, std::byte{9});
    std::memcpy(bytes.data(), &head, sizeof head);
    std::memcpy(bytes.data() + sizeof head, &about, sizeof about);
    send_all(is_bulk ? world.stranger()[0].bulk : world.stranger()[0].control, bytes.data(), bytes.size());
  };
  arrival news;
  std::array<completion, 4> some;
  ASSERT_FALSE(end.receive(links[0], 1, {memory.data(), k_bytes}, news));
  send_frame(true, {.kind = frame_kind::part, .instance = 5, .value = 1}, {.bytes = k_bytes}, 100);
  for (int k = 0; k < 10; ++k) (void)end.poll(some);
  send_frame(false, {.kind = frame_kind::message, .instance = 5, .value = 1}, {.bytes = 10}, 10);
  for (int k = 0; k < 10; ++k) (void)end.poll(some);
  EXPECT_EQ(end.health(), status::transport);
  EXPECT_TRUE(std::all_of(memory.begin() + k_bytes, memory.end(), [](std::byte one) { return one == std::byte{1}; }));
}

// A stranger sends random frames with plausible fields, in pieces of random length. The endpoint must either ignore the
// frames, or report bad health.
TEST(net, survives_random_frames) {
  const char* const wish = std::getenv("LSCHED_TEST_FRAMES");
  const std::uint64_t seeds = wish != nullptr ? std::strtoull(wish, nullptr, 10) : sampled() ? 200 : 2'000;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    world_with_stranger world(2);
    net_endpoint& end = *world.ends[0];
    const std::vector<edge_spec> edges{{.peer = 1, .capacity = 8000},
                                       {.in_place = true, .peer = 1, .tag = 1, .capacity = 40'000},
                                       {.signal = true, .peer = 1, .tag = 2},
                                       {.outgoing = true, .peer = 1, .tag = 3, .capacity = 40'000},
                                       {.peer = 1, .tag = 4, .capacity = 40'000},
                                       {.announced = true, .peer = 1, .tag = 5, .capacity = 40'000}};
    const auto links = *end.attach(5, std::vector<rank>{0, 1}, seed % 2 == 0, edges);
    ASSERT_EQ(end.link(5, std::vector<member_address>(2)), status::ok);
    const auto board = end.open_home_board();
    std::vector<std::byte> source(40'000), target(8000), large(30'000);
    arrival news;
    (void)end.receive(links[0], 1, target.data(), news);
    (void)end.receive(links[1], 1, {}, news);
    (void)end.receive(links[4], 1, {large.data(), large.size()}, news);
    (void)end.receive(links[5], 1, {}, news);
    (void)end.send(links[3], 1, {source.data(), source.size()});
    std::uint64_t dice = seed;
    const auto draw = [&](std::uint64_t below) { return (dice = mix(dice + 1)) % below; };
    for (int k = 0; k < 20; ++k) {
      const bool is_bulk = draw(3) == 0;
      frame head{.kind = static_cast<frame_kind>(is_bulk ? 11 + draw(3) : draw(12)),
                 .bytes = static_cast<std::uint32_t>(draw(2) * draw(100)),
                 .instance = draw(8) == 0 ? 6u : 5u,
                 .index = static_cast<std::uint32_t>(draw(5)),
                 .value = draw(4)};
      const message_head about{.bytes = draw(2) == 0 ? draw(50) : draw(50'000), .null = draw(8) == 0 ? 1u : 0u};
      if (!is_bulk && head.kind <= frame_kind::announcement)
        head.bytes = static_cast<std::uint32_t>(sizeof about + (head.kind == frame_kind::message ? about.bytes : 0));
      std::vector<std::byte> bytes(sizeof head + head.bytes + (is_bulk ? sizeof about : 0));
      std::memcpy(bytes.data(), &head, sizeof head);
      if (bytes.size() >= sizeof head + sizeof about) std::memcpy(bytes.data() + sizeof head, &about, sizeof about);
      const stream_socket& to = is_bulk ? world.stranger()[0].bulk : world.stranger()[0].control;
      for (std::size_t at = 0; at < bytes.size();) {
        const std::size_t now = std::min<std::size_t>(1 + draw(5000), bytes.size() - at);
        if (::send(to.get(), bytes.data() + at, now, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
        at += now;
        std::array<completion, 4> some;
        (void)end.poll(some);
        end.flush();
      }
    }
    end.abandon(5);
    end.detach(5);
  }
}

}  // namespace
}  // namespace lsched
