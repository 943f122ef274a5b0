// Tests that connect all ranks of a job. The tests cover listeners, strangers, missing ranks and wrong secrets.
#include "libsched/transport/net/wire_up.h"

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "libsched/schedule/draw.h"
#include "tests/libsched/transport/net/net_sockets.h"

namespace lsched {
namespace {

using namespace std::chrono_literals;

using testing::job_in_threads;

const net_limits k_patient{.wire_up = 60s, .attempt = 20s, .handshake = 20s};

/// Returns true if the two descriptors are the ends of one connection.
bool are_connected(stream_socket& one, stream_socket& other) {
  char word = 'x', got = 0;
  const iovec out{&word, 1}, in{&got, 1};
  if (one.is_encrypted() != other.is_encrypted() || one.write({&out, 1}) != 1) return false;
  pollfd ready{other.get(), POLLIN, 0};
  return poll(&ready, 1, 60'000) == 1 && other.read({&in, 1}) == 1 && got == word;
}

/// Wires up all ranks of a job, and expects a connection between each pair.
void expect_connected(job_in_threads& job) {
  auto made = job.run(k_patient, [](rank) { return true; });
  for (std::size_t a = 0; a < made.size(); ++a) {
    ASSERT_TRUE(made[a]->has_value()) << made[a]->error().text;
    for (std::size_t b = 0; b < a; ++b) {
      net_sockets &one = (**made[a])[b], &other = (**made[b])[a];
      EXPECT_TRUE(are_connected(one.control, other.control)) << a << " and " << b;
      EXPECT_TRUE(are_connected(one.bulk, other.bulk)) << a << " and " << b;
      EXPECT_EQ(one.control.is_encrypted(), job.job.encryption != nullptr);
    }
    EXPECT_FALSE((**made[a])[a].control);
  }
}

TEST(wire_up, connects_all_pairs) {
  for (const rank ranks : {1, 2, 3, 5, 6, 7, 16})
    for (const std::uint8_t family : {std::uint8_t{4}, std::uint8_t{6}}) {
      if (family == 6 && !testing::has_ipv6()) continue;
      job_in_threads job(ranks, family);
      expect_connected(job);
    }
}

TEST(wire_up, encrypts_all_connections) {
  if (!testing::has_tls()) GTEST_SKIP() << "the system has no OpenSSL 3";
  for (const rank ranks : {2, 3, 5}) {
    job_in_threads job(ranks);
    job.job.encryption = *tls_library::load();
    expect_connected(job);
  }
}

TEST(wire_up, names_a_rank_that_is_missing) {
  for (const rank missing : {0, 1, 2}) {
    job_in_threads job(3);
    net_limits limits = k_patient;
    limits.wire_up = 2s;  // the other ranks connect within milliseconds, unless the machine is busy
    const auto made = job.run(limits, [&](rank r) { return r != missing; });
    for (rank r = 0; r < 3; ++r) {
      if (r == missing) continue;
      const auto& mine = *made[static_cast<std::size_t>(r)];
      ASSERT_FALSE(mine.has_value());
      EXPECT_EQ(mine.error().code, status::timeout);
      EXPECT_EQ(mine.error().peer, missing) << mine.error().text;
      const auto named = static_cast<std::size_t>(missing < r ? missing : r);
      EXPECT_NE(mine.error().text.find(job.addresses[named].front().text()), std::string::npos) << mine.error().text;
    }
  }
}

descriptor connect_to(const net_address& listener) {
  socklen_t length = 0;
  const sockaddr_storage where = listener.to_system(&length);
  descriptor made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(made.get(), reinterpret_cast<const sockaddr*>(&where), length) != 0) made.reset();
  return made;
}

// A stranger that connects must not delay the job, whether it is silent or sends bytes.
TEST(wire_up, ignores_strangers) {
  job_in_threads job(3);
  std::vector<descriptor> strangers;
  for (int k = 0; k < 70; ++k) {
    descriptor one = connect_to(job.addresses[static_cast<std::size_t>(k % 3)].front());
    ASSERT_TRUE(one);
    const std::string words =
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + std::string(static_cast<std::size_t>(k), ' ');
    if (k % 2 == 0) {
      ASSERT_GT(send(one.get(), words.data(), words.size(), MSG_NOSIGNAL), 0);
    }
    strangers.push_back(std::move(one));
  }
  net_limits limits = k_patient;
  limits.most_strangers = 4;
  const auto made = job.run(limits, [](rank) { return true; });
  for (const auto& mine : made) EXPECT_TRUE(mine->has_value()) << mine->error().text;
}

// Even if silent strangers keep connections open, there must be room for all connections that a rank expects.
TEST(wire_up, has_room_beside_strangers) {
  job_in_threads job(7);
  net_limits limits = k_patient;
  limits.least_proof = limits.handshake = 60s;
  std::vector<descriptor> strangers;
  for (const auto& listener : job.addresses)
    for (std::size_t k = 0; k < limits.most_strangers; ++k) {
      strangers.push_back(connect_to(listener.front()));
      ASSERT_TRUE(strangers.back());
    }
  for (const auto& mine : job.run(limits, [](rank) { return true; })) EXPECT_TRUE(*mine) << mine->error().text;
}

// While a job opens, strangers send wrong handshakes. These differ from a correct handshake in one byte, are cut short,
// or are random.
TEST(wire_up, refuses_changed_handshakes) {
  job_in_threads job(5);
  std::atomic<bool> is_over = false;
  std::thread strangers([&] {
    for (std::uint64_t seed = 1; !is_over; ++seed) {
      const descriptor one = connect_to(job.addresses[seed % 5].front());
      std::array<std::byte, 96> words{};
      for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::byte>(mix(seed * 96 + i));
      if (one) (void)!send(one.get(), words.data(), 1 + seed % words.size(), MSG_NOSIGNAL);
    }
  });
  for (int turn = 0; turn < 20; ++turn)
    for (const auto& mine : job.run(k_patient, [](rank) { return true; })) EXPECT_TRUE(*mine) << mine->error().text;
  is_over = true;
  strangers.join();
}

/// Wires up 16 ranks in a child process whose limits of descriptors are `soft` and `hard`. Returns the child's error
/// text, or an empty string.
std::string wire_up_with_descriptors(rlim_t soft, rlim_t hard) {
  int words[2];
  if (pipe(words) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{soft, hard};
    std::string text = setrlimit(RLIMIT_NOFILE, &limit) == 0 ? "" : "cannot change the limit";
    job_in_threads job(16);
    net_limits limits = k_patient;
    if (hard < 480) limits.wire_up = 2s;  // 16 ranks need 480 descriptors
    for (const auto& mine : job.run(limits, [](rank) { return true; }))
      if (!*mine && (text.empty() || mine->error().code == status::no_memory)) text = mine->error().text;
    (void)!write(words[1], text.data(), text.size());
    _exit(0);
  }
  close(words[1]);
  std::array<char, 500> text{};
  const ssize_t bytes = read(words[0], text.data(), text.size());
  close(words[0]);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(bytes, 0))};
}

TEST(wire_up, raises_the_limit_of_descriptors_or_names_it) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < 1000) GTEST_SKIP() << "this process may not have 1000 descriptors";
  EXPECT_EQ(wire_up_with_descriptors(100, limit.rlim_max), "");
  const std::string text = wire_up_with_descriptors(100, 200);
  EXPECT_NE(text.find("a rank needs 30 for the connections to 15 ranks, and the process may have 200"),
            std::string::npos)
      << text;
}

TEST(wire_up, refuses_a_rank_with_another_secret) {
  job_in_threads job(2);
  net_limits limits = k_patient;
  limits.wire_up = 2s;
  net_job other = job.job;
  other.secret[31] ^= std::byte{1};
  std::optional<result<std::vector<net_sockets>>> first, second;
  std::thread listening([&] { first = wire_up({0, 2}, job.listeners[0], job.job, job.addresses, limits); });
  second = wire_up({1, 2}, job.listeners[1], other, job.addresses, limits);
  listening.join();
  ASSERT_FALSE(first->has_value() || second->has_value());
  EXPECT_EQ(first->error().peer, 1);
  EXPECT_NE(second->error().text.find("another job"), std::string::npos) << second->error().text;
}

// One of a rank's addresses also belongs to another host, on which another program listens.
TEST(wire_up, tries_all_addresses_of_a_rank) {
  job_in_threads job(2), stranger(1);
  job.addresses[0].insert(job.addresses[0].begin(), stranger.addresses[0].front());
  net_address nobody = stranger.addresses[0].front();
  nobody.port = 1;
  job.addresses[0].insert(job.addresses[0].begin(), nobody);
  std::atomic<bool> is_over = false;
  std::thread elsewhere([&] {
    while (!is_over) (void)wire_up({0, 2}, stranger.listeners[0], stranger.job, job.addresses, {.wire_up = 50ms});
  });
  const auto made = job.run(k_patient, [](rank) { return true; });
  is_over = true;
  elsewhere.join();
  for (const auto& mine : made) EXPECT_TRUE(mine->has_value()) << mine->error().text;
}

TEST(net_listener, uses_the_chosen_interfaces_and_ports) {
  const auto unknown = net_listener::open({.names = {"none0", "none1*"}, .family = 4});
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, status::unsupported);
  EXPECT_TRUE(
      unknown.error().text.starts_with("no network interface is up that fits LSCHED_NET_INTERFACES=none0,none1* "
                                       "and LSCHED_NET_FAMILY=4. "))
      << unknown.error().text;
  const auto any = net_listener::open({.names = {"l*"}, .family = 4});
  ASSERT_TRUE(any.has_value()) << any.error().text;
  ASSERT_EQ(any->addresses().size(), 1u);
  EXPECT_TRUE(any->addresses().front().is_loopback());
  const std::uint16_t used = any->addresses().front().port;
  const auto again = net_listener::open({.names = {"lo"}, .family = 4, .first_port = used, .last_port = used});
  ASSERT_FALSE(again.has_value());
  EXPECT_NE(again.error().text.find("cannot listen at 127.0.0.1:" + std::to_string(used)), std::string::npos)
      << again.error().text;
}

TEST(net_address, knows_its_subnet) {
  const auto v4 = [](std::uint8_t last, std::uint8_t third = 0) {
    return net_address{.family = 4, .prefix = 24, .bytes = {10, 0, third, last}};
  };
  EXPECT_TRUE(v4(1).is_near(v4(200)));
  EXPECT_FALSE(v4(1).is_near(v4(1, 1)));
  const net_address v6{.family = 6, .prefix = 64, .port = 5, .bytes = {0xfd, 0, 0, 0, 0, 0, 0, 0, 1}};
  EXPECT_FALSE(v4(1).is_near(v6));
  EXPECT_EQ(v4(7).text(), "10.0.0.7:0");
  EXPECT_EQ(v6.text(), "[fd00::100:0:0:0]:5");
  std::vector<net_address> theirs{v6, v4(1, 1), v4(9)};
  sort_by_nearness(theirs, std::vector{v4(1)});
  EXPECT_EQ(theirs.front(), v4(9));
}

}  // namespace
}  // namespace lsched
