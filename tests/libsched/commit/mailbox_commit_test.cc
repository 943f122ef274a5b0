// Tests of mailboxes. One rank leaves or gives up while a long message is in flight, over the transport net or over the
// in-process transport.
#include "libsched/commit/mailbox_commit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <list>
#include <memory>
#include <vector>

#include "libsched/commit/commit_queue.h"
#include "libsched/transport/net/net_endpoint.h"
#include "tests/libsched/transport/net/net_sockets.h"
#include "tests/support/lockstep_world.h"
#include "tests/support/wait_until.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_long = std::uint64_t{16} << 20;

struct net_rank {
  net_rank(rank self, std::vector<net_sockets> sockets)
      : net(std::move(*net_endpoint::open({self, 2}, std::move(sockets)))),
        runs(std::make_unique<engine>(*net)),
        members(std::make_shared<const membership>(net->place())),
        commits(std::make_unique<commit_queue>(*runs, members, net->open_home_board())),
        box(std::make_shared<mailbox_commit>(*runs, members, 0, std::nullopt)) {
    commits->add(box);
  }
  void close() {
    box.reset();
    commits.reset();
  }

  std::unique_ptr<net_endpoint> net;
  std::unique_ptr<engine> runs;
  membership_ptr members;
  std::unique_ptr<commit_queue> commits;
  std::shared_ptr<mailbox_commit> box;
};

/// A long message from rank 0. Only a part of the message has arrived at rank 1.
class half_a_message {
 public:
  half_a_message() {
    auto sockets = testing::connect_all(2, AF_INET, false);
    for (rank r = 0; r < 2; ++r)
      ranks[static_cast<std::size_t>(r)] =
          std::make_unique<net_rank>(r, std::move(sockets[static_cast<std::size_t>(r)]));
    EXPECT_TRUE(
        step_until([&] { return ranks[0]->box->progress().has_ended() && ranks[1]->box->progress().has_ended(); }));
    to().box->made().post(received);
    from().box->made().post(sent);
    EXPECT_TRUE(step_until([&] { return target.front() == std::byte{7}; }));
    EXPECT_FALSE(received.progress.has_ended());
  }

  template <class Condition>
  bool step_until(const Condition& holds) {
    return testing::wait_until([&] {
      for (const auto& one : ranks) (void)one->runs->step();
      return holds();
    });
  }
  net_rank& from() { return *ranks[0]; }
  net_rank& to() { return *ranks[1]; }

  std::vector<std::byte> source = std::vector<std::byte>(k_long, std::byte{7}), target = std::vector<std::byte>(k_long);
  posted_message sent{.is_sent = true, .peer = 1, .memory = source.data(), .bytes = k_long};
  posted_message received{.peer = 0, .memory = target.data(), .bytes = k_long};
  std::array<std::unique_ptr<net_rank>, 2> ranks;
};

// The sender waits for the receiver only until the kernel has accepted the whole message, and then leaves the world.
TEST(mailbox, a_message_of_a_member_that_has_left_arrives_after_its_departure_was_noticed) {
  half_a_message it;
  for (int turns = 0; !it.sent.progress.has_ended(); ++turns) {
    ASSERT_LT(turns, 1'000'000);
    (void)it.from().runs->step();
    if (turns % 64 == 63) (void)it.to().runs->step();
  }
  ASSERT_FALSE(it.received.progress.has_ended());
  it.from().close();
  (void)it.from().runs->step();
  for (int turns = 0; turns < 2; ++turns) (void)it.to().runs->step();
  ASSERT_FALSE(it.received.progress.has_ended());
  it.to().runs->lose(*it.to().members, 0);
  EXPECT_TRUE(it.step_until([&] { return it.received.progress.has_ended(); }));
  EXPECT_EQ(it.received.progress.verdict.load(), status::ok);
  EXPECT_EQ(it.target, it.source);
}

TEST(mailbox, a_send_that_is_given_up_ends_the_mailbox_of_the_receiver) {
  half_a_message it;
  it.from().box->made().give_up(status::timeout);
  EXPECT_EQ(it.sent.progress.verdict.load(), status::timeout);
  EXPECT_TRUE(it.step_until([&] { return it.received.progress.has_ended(); }));
  EXPECT_EQ(it.received.progress.verdict.load(), status::peer);
  EXPECT_EQ(it.received.source, 0);
  for (int turns = 0; turns < 1000; ++turns)
    for (const auto& one : it.ranks) (void)one->runs->step();
  for (const auto& one : it.ranks) EXPECT_EQ(one->net->health(), status::ok);
  EXPECT_TRUE(it.to().box->made().is_idle());
}

TEST(mailbox, a_receive_that_is_given_up_is_not_written_any_more) {
  half_a_message it;
  it.to().box->made().give_up(status::timeout);
  EXPECT_EQ(it.received.progress.verdict.load(), status::timeout);
  EXPECT_EQ(it.received.source, 0);
  std::ranges::fill(it.target, std::byte{});
  EXPECT_TRUE(it.step_until([&] { return it.sent.progress.has_ended(); }));
  for (int turns = 0; turns < 1000; ++turns) (void)it.to().runs->step();
  EXPECT_EQ(it.to().net->health(), status::ok);
  EXPECT_EQ(std::ranges::count(it.target, std::byte{}), static_cast<std::ptrdiff_t>(k_long));
  EXPECT_TRUE(it.to().box->made().is_idle());
}

// Rank 2 cancels the mailbox while rank 1 reads a message of rank 0. Then rank 0's sends of later messages must end,
// too. The in-process transport reads payloads as late as possible.
TEST(mailbox, sends_behind_a_message_that_is_read_during_a_cancellation_end) {
  constexpr std::size_t k_bytes = 1000;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    std::vector<std::byte> source(k_bytes), target(k_bytes);
    std::list<posted_message> posted;
    testing::lockstep_world world(3, seed);
    std::vector<std::unique_ptr<mailbox>> boxes;
    std::vector<member_address> addresses;
    for (rank r = 0; r < 3; ++r) {
      boxes.push_back(std::make_unique<mailbox>(world.at(r), std::make_shared<const membership>(lsched::world{r, 3})));
      addresses.push_back(boxes.back()->address());
    }
    for (const auto& box : boxes) ASSERT_EQ(box->open(addresses), status::ok);
    const auto post = [&](mailbox& box, bool is_sent, rank peer, std::byte* memory) {
      posted_message& one = posted.emplace_back();
      one.is_sent = is_sent, one.peer = peer, one.memory = memory, one.bytes = k_bytes;
      box.post(one);
    };
    for (int messages = 4; messages > 0; --messages) {
      post(*boxes[0], true, 1, source.data());
      post(*boxes[1], false, 0, target.data());
    }
    for (std::uint64_t steps = world.draw_below(60); steps > 0; --steps) world.step();
    world.at(2).net().cancel(static_cast<std::uint32_t>(addresses[2].near), {2});
    EXPECT_TRUE(world.run_until([&] { return boxes[0]->is_idle() && boxes[1]->is_idle(); })) << "seed " << seed;
  }
}

}  // namespace
}  // namespace lsched
